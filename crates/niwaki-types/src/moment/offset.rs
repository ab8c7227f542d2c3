//! The distance from Greenwich in text, and the faults of texts of moments.

/// Why a text is not a moment.
#[derive(Debug)]
pub(crate) enum Fault {
    Syntax,
    FieldRange,
    /// A month or day that no calendar has. In another order of fields, a month may be a day, or a
    /// day a month.
    MonthOrDay,
    ZoneRange,
    UnknownZone(String),
}

/// Returns the seconds east of Greenwich of `±H`, `±HH`, `±HHMM`, `±HH:MM`, `±HH:MM:SS`. An empty
/// part is 0.
pub(crate) fn offset(text: &str) -> Result<i32, Fault> {
    let (sign, mut rest) = text.split_at(1);
    let number = |rest: &mut &str| -> Result<i32, Fault> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, behind) = rest.split_at(end);
        *rest = behind;
        if digits.is_empty() { Ok(0) } else { digits.parse().map_err(|_| Fault::ZoneRange) }
    };
    let mut hours = number(&mut rest)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        rest = behind;
        minutes = number(&mut rest)?;
        if let Some(behind) = rest.strip_prefix(':') {
            rest = behind;
            seconds = number(&mut rest)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Fault::ZoneRange);
    }
    if !rest.is_empty() {
        return Err(Fault::Syntax);
    }
    let total = hours * 3600 + minutes * 60 + seconds;
    Ok(if sign == "-" { -total } else { total })
}
