//! Selects functions by collation, which decides the characters that have cases and belong to
//! classes.

use std::sync::OnceLock;

use super::{ByName, Function, T, index, pattern, regexp, text};
use crate::expr::Collation;
use crate::expr::collation::STRING_COMPARISON;

impl Function {
    /// Returns the variant of the function for arguments of this collation.
    pub(crate) fn under(&'static self, collation: Collation) -> &'static Self {
        if !collation.is_ascii() {
            return self;
        }
        static MAP: OnceLock<ByName> = OnceLock::new();
        let tables = [text::ASCII, regexp::ASCII, pattern::ASCII_OPERATORS];
        let named = MAP.get_or_init(|| index(&tables)).get(self.name);
        let same = named.and_then(|all| all.iter().find(|one| one.arguments == self.arguments));
        same.copied().unwrap_or(self)
    }
}

/// Returns the name for the error message of a function that fails when no collation can be
/// determined.
pub(crate) fn needs_collation(function: &Function) -> Option<&'static str> {
    let compares =
        |ty: &_| matches!(*ty, T::TEXT | T::BPCHAR | T::NAME | T::ARRAY | T::COMPATIBLES);
    match function.name {
        "lower" => Some("lower() function"),
        "upper" => Some("upper() function"),
        "initcap" => Some("initcap() function"),
        "~~*" | "!~~*" => Some("ILIKE"),
        "~" | "~*" | "!~" | "!~*" => Some("regular expression"),
        "substring" if function.arguments.get(1) == Some(&T::TEXT) => Some("regular expression"),
        name if name.starts_with("regexp_") => Some("regular expression"),
        "=" | "<>" | "<" | "<=" | ">" | ">=" | "@>" | "<@" | "&&"
            if function.arguments.iter().any(compares) =>
        {
            Some(STRING_COMPARISON)
        }
        "position" | "strpos" | "replace" | "split_part" | "starts_with" | "^@"
        | "string_to_array" | "string_to_table" | "array_position" | "array_positions"
        | "array_remove" | "array_replace" => Some(STRING_COMPARISON),
        _ => None,
    }
}
