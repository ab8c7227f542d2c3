//! WITH options of tables and indexes.

use niwaki_catalog::{RelationKind, RelationOptions};
use niwaki_sql::SqlError;

use crate::Result;

/// What an option accepts.
enum Accepts {
    Percent { least: i64 },
    Switch,
    OneOf(&'static [&'static str]),
    Number,
}

fn option(kind: RelationKind, name: &str) -> Option<Accepts> {
    let accepts = match (kind, name) {
        (RelationKind::Table | RelationKind::Index, "fillfactor") => Accepts::Percent { least: 10 },
        (RelationKind::Table, "heap_only_updates") => {
            Accepts::OneOf(&["any_key", "same_keys", "off"])
        }
        (
            RelationKind::Table,
            "autovacuum_enabled"
            | "toast.autovacuum_enabled"
            | "vacuum_truncate"
            | "user_catalog_table",
        )
        | (
            RelationKind::Index,
            "deduplicate_items"
            | "bottom_up_deletion"
            | "simple_deletion_extras"
            | "suffix_truncation",
        ) => Accepts::Switch,
        (RelationKind::Index, "split_strategy") => Accepts::OneOf(&["informed", "half"]),
        (RelationKind::Index, "version_hint") => Accepts::OneOf(&["last_item", "page"]),
        (RelationKind::Table, "parallel_workers" | "toast_tuple_target") => Accepts::Number,
        (RelationKind::Table, name) if name.starts_with("autovacuum_") => Accepts::Number,
        _ => return None,
    };
    Some(accepts)
}

/// Checks options and adds them to what is there.
///
/// # Errors
/// 22023 for an unknown name or a bad value.
pub(super) fn set(
    kind: RelationKind,
    into: &mut RelationOptions,
    given: &[(String, Option<String>)],
) -> Result<()> {
    for (name, value) in given {
        let accepts = option(kind, name).ok_or_else(|| unknown(name))?;
        let text = value.as_deref().unwrap_or("true");
        let value = match accepts {
            Accepts::Percent { least } => {
                let number: i64 = text.parse().map_err(|_| invalid("integer", name, text))?;
                if !(least..=100).contains(&number) {
                    return Err(SqlError::new(
                        "22023",
                        format!("value {number} out of bounds for option \"{name}\""),
                    )
                    .with_detail(format!("Valid values are between \"{least}\" and \"100\".")));
                }
                number.to_string()
            }
            Accepts::Switch => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" | "t" | "y" => "on".to_owned(),
                "off" | "false" | "no" | "0" | "f" | "n" | "of" => "off".to_owned(),
                _ => return Err(invalid("boolean", name, text)),
            },
            Accepts::OneOf(words) => {
                let word = text.to_ascii_lowercase();
                // The grammar turns the word off into false.
                let word = if word == "false" { "off".to_owned() } else { word };
                if !words.contains(&word.as_str()) {
                    let list: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                    return Err(invalid("enum", name, text)
                        .with_detail(format!("Valid values are {}.", list.join(", "))));
                }
                word
            }
            Accepts::Number => {
                let number: f64 =
                    text.parse().map_err(|_| invalid("floating point", name, text))?;
                if !number.is_finite() {
                    return Err(invalid("floating point", name, text));
                }
                text.to_owned()
            }
        };
        into.set(name, &value);
    }
    Ok(())
}

/// Removes options.
///
/// # Errors
/// 22023 for an unknown name.
pub(super) fn reset(
    kind: RelationKind,
    from: &mut RelationOptions,
    names: &[String],
) -> Result<()> {
    for name in names {
        if option(kind, name).is_none() {
            return Err(unknown(name));
        }
        from.reset(name);
    }
    Ok(())
}

fn unknown(name: &str) -> SqlError {
    SqlError::new("22023", format!("unrecognized parameter \"{name}\""))
}

fn invalid(what: &str, name: &str, text: &str) -> SqlError {
    SqlError::new("22023", format!("invalid value for {what} option \"{name}\": {text}"))
}
