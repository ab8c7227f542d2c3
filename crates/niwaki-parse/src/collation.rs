//! Resolves the collation name of a COLLATE clause.

use niwaki_catalog::{Oid, collations};

use crate::error::{Result, SqlError};

/// Returns the collation that a name in parts means.
///
/// # Errors
/// `42704` when PostgreSQL has no collation of this name. `0A000` when PostgreSQL may have one that
/// does not sort by bytes.
pub fn collation_named(parts: &[&str]) -> Result<Oid> {
    let (name, schema) = match parts {
        [name] => (*name, None),
        [.., schema, name] => (*name, Some(*schema)),
        [] => return Err(SqlError::internal("COLLATE without a name")),
    };
    if schema.is_none_or(|schema| schema == "pg_catalog") {
        if let Some((oid, _)) = collations().find(|(_, known)| *known == name) {
            return Ok(oid);
        }
        if is_locale(name) {
            return Err(SqlError::unsupported(format!("collation \"{name}\"")));
        }
    }
    let shown = parts.join(".");
    let message = format!("collation \"{shown}\" for encoding \"UTF8\" does not exist");
    Err(SqlError::new("42704", message))
}

/// Decides whether a name has the form of a collation from ICU (`de-x-icu`) or from the operating
/// system (`de_DE`, `de_DE.utf8`).
fn is_locale(name: &str) -> bool {
    let of_system = |name: &str| {
        let (language, rest) = name.split_once('_').unwrap_or((name, ""));
        (2..=3).contains(&language.len())
            && language.bytes().all(|b| b.is_ascii_lowercase())
            && rest.len() >= 2
            && rest.bytes().take(2).all(|b| b.is_ascii_uppercase())
    };
    name.ends_with("-x-icu") || of_system(name)
}

/// Returns the error `42804` for a type that collations do not support. `shown` is the type's name.
pub fn refuse_uncollated(shown: &str) -> SqlError {
    SqlError::new("42804", format!("collations are not supported by type {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_there_are_refused_and_others_unknown() {
        let code = |parts: &[&str]| collation_named(parts).err().map(|error| error.sqlstate);
        assert_eq!(collation_named(&["C"]).ok(), Some(Oid(950)));
        assert_eq!(collation_named(&["pg_catalog", "POSIX"]).ok(), Some(Oid(951)));
        for refused in ["en_US", "en_US.utf8", "de-x-icu", "und-x-icu", "sv_SE"] {
            assert_eq!(code(&[refused]), Some("0A000"), "{refused}");
        }
        for unknown in ["c", "foo", "en_us", "", "C-x", "other_NAME"] {
            assert_eq!(code(&[unknown]), Some("42704"), "{unknown}");
        }
        assert_eq!(code(&["public", "C"]), Some("42704"));
    }
}
