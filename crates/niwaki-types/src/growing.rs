//! Values while they are built: their memory is charged before it is taken, and counted as work.
//!
//! A function of a few bytes can ask for a value of terabytes (`replace`), or double a value row by
//! row. No value is longer than [`VALUE_BYTES_MAX`], so a longer one is refused before its memory
//! is asked for.

use crate::error::{Result, TypeError};
use crate::value::datum::Datum;
use crate::work;

/// Longest value, in bytes with its length: a byte less than a gibibyte, as in PostgreSQL.
pub const VALUE_BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of the length that a value is stored with.
const LENGTH_BYTES: usize = 4;

/// Longest text or byte string, in bytes.
pub const TEXT_BYTES_MAX: usize = VALUE_BYTES_MAX - LENGTH_BYTES;

/// Size in bytes from which memory is asked for before it is taken, and not only afterwards.
const LARGE_BYTES: usize = 64 << 10;

/// Asks for room for a part of a value, if it is large.
#[inline]
fn ask_for(bytes: usize) -> Result<()> {
    if bytes >= LARGE_BYTES { Ok(niwaki_env::memory::room(bytes)?) } else { Ok(()) }
}

/// Asks for room where a buffer of `capacity` bytes, `length` of them in use, must grow for `more`.
/// The buffer doubles then. Its bytes exist twice while they are copied.
///
/// # Errors
/// `53200` where there is no memory.
#[inline]
pub fn ask_to_grow(capacity: usize, length: usize, more: usize) -> Result<()> {
    let wanted = length.saturating_add(more);
    if wanted <= capacity { Ok(()) } else { ask_for(wanted.max(capacity.saturating_mul(2))) }
}

/// Charges `count` parts of `part_bytes` each, which are copied at once, without their contents.
///
/// # Errors
/// `53200` where there is no memory, and the errors that end the statement.
#[inline]
pub fn charge_parts(count: usize, part_bytes: usize) -> Result<()> {
    let bytes = count.saturating_mul(part_bytes);
    work::tick(bytes)?;
    ask_for(bytes)
}

/// The bytes of a value that is being built, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charge {
    bytes: usize,
}

impl Charge {
    /// Returns the charge of a value of `bytes` bytes.
    pub fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Charges `more` bytes, before they are taken.
    ///
    /// # Errors
    /// `54000` where the value would be longer than a value may be, `53200` where there is no
    /// memory.
    #[inline]
    pub fn add(&mut self, more: usize) -> Result<()> {
        work::tick(more)?;
        let bytes = self.bytes.saturating_add(more);
        if bytes > TEXT_BYTES_MAX && !niwaki_env::seeded_bug!("value_uncharged") {
            return Err(too_long(self.bytes, more));
        }
        ask_for(more)?;
        self.bytes = bytes;
        Ok(())
    }
}

#[cold]
fn too_long(bytes: usize, more: usize) -> TypeError {
    TypeError::new("54000", "out of memory").with_detail(format!(
        "Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes."
    ))
}

/// Charges a value whose length is known before it is built.
///
/// # Errors
/// As [`Charge::add`], with PostgreSQL's words for memory that is asked for at once.
#[inline]
pub fn charge_whole(bytes: usize) -> Result<()> {
    work::tick(bytes)?;
    if bytes > TEXT_BYTES_MAX {
        let bytes = bytes.saturating_add(LENGTH_BYTES);
        return Err(TypeError::new("54000", format!("invalid memory alloc request size {bytes}")));
    }
    ask_for(bytes)
}

/// Charges `more` bytes of a value that already has some.
///
/// # Errors
/// As [`Charge::add`].
#[inline]
pub fn charge_more(bytes: usize, more: usize) -> Result<()> {
    Charge { bytes }.add(more)
}

/// A text that is being built.
#[derive(Debug, Default)]
pub struct GrowingText {
    text: String,
}

impl GrowingText {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Charges `more` bytes before they are appended.
    #[inline]
    fn charge(&self, more: usize) -> Result<()> {
        Charge { bytes: self.text.len() }.add(more)?;
        ask_to_grow(self.text.capacity(), self.text.len(), more)
    }

    /// Returns the text built so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends a part.
    ///
    /// # Errors
    /// As [`Charge::add`].
    #[inline]
    pub fn push_str(&mut self, part: &str) -> Result<()> {
        self.charge(part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    /// Appends a character.
    ///
    /// # Errors
    /// As [`Charge::add`].
    #[inline]
    pub fn push(&mut self, character: char) -> Result<()> {
        self.charge(character.len_utf8())?;
        self.text.push(character);
        Ok(())
    }

    /// Appends a character `times` times.
    ///
    /// # Errors
    /// As [`Charge::add`].
    pub fn push_times(&mut self, character: char, times: usize) -> Result<()> {
        let more = times.saturating_mul(character.len_utf8());
        self.charge(more)?;
        self.text.extend(std::iter::repeat_n(character, times));
        Ok(())
    }

    /// Appends characters, which are charged in lots.
    ///
    /// # Errors
    /// As [`Charge::add`].
    pub fn extend(&mut self, characters: impl Iterator<Item = char>) -> Result<()> {
        /// Bytes of characters that are charged together.
        const LOT_BYTES: usize = 4096;
        let mut charged = self.text.len();
        for character in characters {
            self.text.push(character);
            if self.text.len().saturating_sub(charged) >= LOT_BYTES {
                Charge { bytes: charged }.add(self.text.len().saturating_sub(charged))?;
                charged = self.text.len();
                // Room for the next lot, and for the character that overshoots it.
                ask_to_grow(self.text.capacity(), charged, LOT_BYTES.saturating_add(4))?;
            }
        }
        Charge { bytes: charged }.add(self.text.len().saturating_sub(charged))
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.text
    }

    /// Returns a copy as a value.
    ///
    /// # Errors
    /// `53200` where there is no memory for both.
    pub fn finish(self) -> Result<Datum> {
        ask_for(self.text.len())?;
        Ok(Datum::Text(self.text.into()))
    }
}

/// The elements of an array that is being built.
#[derive(Debug, Default)]
pub struct GrowingArray {
    values: Vec<Datum>,
    charge: Charge,
}

impl GrowingArray {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an element of `bytes` bytes beside its place.
    ///
    /// # Errors
    /// As [`charge_elements`].
    #[inline]
    pub fn push(&mut self, value: Datum, bytes: usize) -> Result<()> {
        charge_elements(&mut self.charge, 1, bytes)?;
        let place = size_of::<Datum>();
        let [capacity, length] = [self.values.capacity(), self.values.len()];
        ask_to_grow(capacity.saturating_mul(place), length.saturating_mul(place), place)?;
        self.values.push(value);
        Ok(())
    }

    /// Returns the elements.
    pub fn into_values(self) -> Vec<Datum> {
        self.values
    }
}

/// Charges `count` elements of an array, of `bytes` bytes in all beside their places.
///
/// # Errors
/// `54000` where they would take more than a value may.
#[inline]
pub fn charge_elements(charge: &mut Charge, count: usize, bytes: usize) -> Result<()> {
    let more = count.saturating_mul(size_of::<Datum>()).saturating_add(bytes);
    work::tick(more)?;
    let all = charge.bytes.saturating_add(more);
    if all > VALUE_BYTES_MAX {
        return Err(TypeError::new(
            "54000",
            format!("array size exceeds the maximum allowed ({VALUE_BYTES_MAX})"),
        ));
    }
    ask_for(more)?;
    charge.bytes = all;
    Ok(())
}

/// Returns the estimated bytes that a value takes besides its own size. These are the bytes it
/// points to, its counters, and the allocator's overhead. Memory that it shares with others counts
/// as its own.
pub fn value_bytes(value: &Datum) -> usize {
    const OVERHEAD: usize = 32;
    match value {
        Datum::Text(text) => text.len().saturating_add(OVERHEAD),
        Datum::Bytea(bytes) => bytes.len().saturating_add(OVERHEAD),
        Datum::Jsonb(value) => value.memory().saturating_add(OVERHEAD),
        Datum::Array(_, values) => elements_bytes(values).saturating_add(OVERHEAD),
        Datum::Record(_, record) => record.bytes(),
        Datum::Numeric(_) | Datum::Interval(_) => 2 * OVERHEAD,
        _ => 0,
    }
}

/// Returns the bytes of values and of their places, roughly.
pub fn elements_bytes(values: &[Datum]) -> usize {
    let inside = values.iter().map(value_bytes).fold(0, usize::saturating_add);
    size_of_val(values).saturating_add(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_refused_before_it_is_built() {
        let mut charge = Charge::default();
        charge.add(TEXT_BYTES_MAX).expect("fits");
        let refused = charge.add(1).expect_err("a byte too many");
        assert_eq!(refused.sqlstate, "54000");
        assert!(refused.detail.is_some_and(|detail| detail.contains("by 1 more bytes")));
        // Refused bytes are not charged.
        charge.add(0).expect("as before");
        assert!(charge_whole(TEXT_BYTES_MAX).is_ok());
        assert!(charge_whole(usize::MAX).is_err());
        let mut text = GrowingText::new();
        assert!(text.push_times('x', TEXT_BYTES_MAX + 1).is_err());
        assert!(text.push_times('é', TEXT_BYTES_MAX).is_err());
        text.extend("né".chars()).expect("fits");
        text.push('!').expect("fits");
        assert_eq!(text.into_string(), "né!");
        let mut elements = Charge::default();
        assert!(charge_elements(&mut elements, 1 << 40, 0).is_err());
        assert!(charge_elements(&mut elements, 3, VALUE_BYTES_MAX).is_err());
        charge_elements(&mut elements, 3, 10).expect("fits");
    }
}
