//! WITH options of tables, indexes and views. Materialized views have the options of tables.

use niwaki_catalog::{RelationKind, RelationOptions};
use niwaki_sql::{Result, SqlError};
use niwaki_types::parse_bool;

/// Values that an option accepts.
enum Accepts {
    Integer { least: i64, most: i64 },
    Real { least: f64, most: f64 },
    Switch,
    OneOf(&'static [&'static str]),
}

fn option(kind: RelationKind, name: &str) -> Option<Accepts> {
    if kind == RelationKind::MaterializedView {
        return option(RelationKind::Table, name);
    }
    if let (RelationKind::Table, Some(name)) = (kind, name.strip_prefix(TOAST)) {
        return toast_option(name);
    }
    let accepts = match (kind, name) {
        (RelationKind::Table | RelationKind::Index, "fillfactor") => {
            Accepts::Integer { least: 10, most: 100 }
        }
        (RelationKind::Table, "vacuum_index_cleanup") => Accepts::OneOf(&["on", "off", "auto"]),
        (RelationKind::Table, "heap_only_updates") => {
            Accepts::OneOf(&["any_key", "same_keys", "off"])
        }
        (RelationKind::Table, "autovacuum_enabled" | "vacuum_truncate" | "user_catalog_table")
        | (
            RelationKind::Index,
            "deduplicate_items"
            | "bottom_up_deletion"
            | "simple_deletion_extras"
            | "suffix_truncation",
        ) => Accepts::Switch,
        (RelationKind::View, "check_option") => Accepts::OneOf(&["local", "cascaded"]),
        (RelationKind::View, "security_invoker" | "security_barrier") => Accepts::Switch,
        (RelationKind::Index, "split_strategy") => Accepts::OneOf(&["informed", "half"]),
        (RelationKind::Index, "version_hint") => Accepts::OneOf(&["last_item", "page"]),
        (RelationKind::Table, "parallel_workers") => Accepts::Integer { least: 0, most: 1024 },
        (RelationKind::Table, "toast_tuple_target") => Accepts::Integer { least: 128, most: 8160 },
        (RelationKind::Table, name) => return autovacuum_option(name),
        _ => return None,
    };
    Some(accepts)
}

/// Prefix of options that PostgreSQL's tables have for their TOAST tables. They are accepted and
/// have no effect.
const TOAST: &str = "toast.";

fn toast_option(name: &str) -> Option<Accepts> {
    match name {
        "autovacuum_enabled" | "vacuum_truncate" | "vacuum_index_cleanup" => {
            option(RelationKind::Table, name)
        }
        "autovacuum_analyze_threshold" | "autovacuum_analyze_scale_factor" => None,
        name => autovacuum_option(name),
    }
}

/// Returns the values that an autovacuum option of a table accepts. Of the freezing options, only
/// `autovacuum_freeze_min_age` has an effect.
fn autovacuum_option(name: &str) -> Option<Accepts> {
    const COUNT: i64 = i32::MAX as i64;
    const AGE: i64 = 2_000_000_000;
    let (least, most) = match name {
        "autovacuum_vacuum_threshold" | "autovacuum_analyze_threshold" => (0, COUNT),
        "autovacuum_vacuum_max_threshold"
        | "autovacuum_vacuum_insert_threshold"
        | "log_autovacuum_min_duration" => (-1, COUNT),
        "autovacuum_vacuum_cost_limit" => (1, 10_000),
        "autovacuum_freeze_min_age" | "autovacuum_multixact_freeze_min_age" => (0, AGE / 2),
        "autovacuum_freeze_max_age" => (100_000, AGE),
        "autovacuum_multixact_freeze_max_age" => (10_000, AGE),
        "autovacuum_freeze_table_age" | "autovacuum_multixact_freeze_table_age" => (0, AGE),
        "autovacuum_vacuum_scale_factor"
        | "autovacuum_vacuum_insert_scale_factor"
        | "autovacuum_analyze_scale_factor"
        | "autovacuum_vacuum_cost_delay" => {
            return Some(Accepts::Real { least: 0.0, most: 100.0 });
        }
        _ => return None,
    };
    Some(Accepts::Integer { least, most })
}

/// Returns the options of a new table. `oids` may say, as in old dumps, that rows have no oids.
///
/// # Errors
/// 22023 for an unknown name or a bad value, 0A000 for rows with oids.
pub(crate) fn of_new_table(
    kind: RelationKind,
    given: &[(String, Option<String>)],
) -> Result<RelationOptions> {
    let (oids, others): (Vec<_>, Vec<_>) =
        given.iter().cloned().partition(|(name, _)| name == "oids");
    for (_, value) in &oids {
        let wanted = parse_bool(value.as_deref().unwrap_or("true"))
            .map_err(|_| SqlError::new("42601", "oids requires a Boolean value"))?;
        if wanted {
            return Err(SqlError::new("0A000", "tables declared WITH OIDS are not supported"));
        }
    }
    let mut options = RelationOptions::default();
    set(kind, &mut options, &others)?;
    Ok(options)
}

/// Checks options and adds them to the existing ones.
///
/// # Errors
/// 22023 for an unknown name or a bad value.
pub(crate) fn set(
    kind: RelationKind,
    into: &mut RelationOptions,
    given: &[(String, Option<String>)],
) -> Result<()> {
    for (number, (name, value)) in given.iter().enumerate() {
        if given.iter().take(number).any(|(other, _)| other == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new("22023", message));
        }
        let accepts = option(kind, name).ok_or_else(|| unknown(kind, name))?;
        let (full, name) = (name, name.strip_prefix(TOAST).unwrap_or(name));
        let text = value.as_deref().unwrap_or("true");
        let value = match accepts {
            Accepts::Integer { least, most } => {
                let number: i64 = text.parse().map_err(|_| invalid("integer", name, text))?;
                if !(least..=most).contains(&number) {
                    return Err(out_of_bounds(name, text, &least, &most));
                }
                number.to_string()
            }
            Accepts::Real { least, most } => {
                let number: f64 =
                    text.parse().map_err(|_| invalid("floating point", name, text))?;
                if number.is_nan() {
                    return Err(invalid("floating point", name, text));
                }
                if !(least..=most).contains(&number) {
                    let shown = |limit: f64| format!("{limit:.6}");
                    return Err(out_of_bounds(name, text, &shown(least), &shown(most)));
                }
                text.to_owned()
            }
            Accepts::Switch => {
                parse_bool(text).map_err(|_| invalid("boolean", name, text))?;
                // The value is shown as it was written.
                text.to_owned()
            }
            Accepts::OneOf(words) => {
                let word = text.to_ascii_lowercase();
                // The grammar turns the word off into false. So an option that accepts on or off
                // takes all words of a switch.
                let word = match word.as_str() {
                    "false" | "no" | "0" if words.contains(&"off") => "off".to_owned(),
                    "true" | "yes" | "1" if words.contains(&"on") => "on".to_owned(),
                    _ => word,
                };
                if !words.contains(&word.as_str()) {
                    let list: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                    let (last, others) = list.split_last().expect("a list of words has some");
                    let comma = if others.len() > 1 { "," } else { "" };
                    let detail =
                        format!("Valid values are {}{comma} and {last}.", others.join(", "));
                    return Err(invalid("enum", name, text).with_detail(detail));
                }
                word
            }
        };
        into.set(full, &value);
    }
    Ok(())
}

/// Removes options.
///
/// # Errors
/// 22023 for an unknown name.
pub(crate) fn reset(
    kind: RelationKind,
    from: &mut RelationOptions,
    names: &[String],
) -> Result<()> {
    for name in names {
        if option(kind, name).is_none() {
            return Err(unknown(kind, name));
        }
        from.reset(name);
    }
    Ok(())
}

fn unknown(kind: RelationKind, name: &str) -> SqlError {
    let (namespace, bare) = name.split_once('.').unwrap_or(("", name));
    let known = namespace.is_empty() || kind.has_rows() && name.starts_with(TOAST);
    let message = if known {
        format!("unrecognized parameter \"{bare}\"")
    } else {
        format!("unrecognized parameter namespace \"{namespace}\"")
    };
    SqlError::new("22023", message)
}

fn out_of_bounds(
    name: &str,
    text: &str,
    least: &dyn std::fmt::Display,
    most: &dyn std::fmt::Display,
) -> SqlError {
    SqlError::new("22023", format!("value {text} out of bounds for option \"{name}\""))
        .with_detail(format!("Valid values are between \"{least}\" and \"{most}\"."))
}

fn invalid(what: &str, name: &str, text: &str) -> SqlError {
    SqlError::new("22023", format!("invalid value for {what} option \"{name}\": {text}"))
}
