//! Selects functions by collation, which decides the characters that have cases and belong to
//! classes.

use std::sync::OnceLock;

use super::{ByName, Function, index, pattern, regexp, text};
use crate::expr::Collation;

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
