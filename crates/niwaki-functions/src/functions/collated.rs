//! Selects functions by collation, which decides the characters that have cases and belong to
//! classes.

use std::sync::OnceLock;

use niwaki_expr::expr::{Collation, Expr, ExprKind};
use niwaki_types::TypeOid;

use super::text::{pattern, regexp, strings};
use super::{ByName, Function, index};

/// Returns the variant of a function for arguments of this collation.
pub fn under(function: &'static Function, collation: Collation) -> &'static Function {
    if !collation.is_ascii() {
        return function;
    }
    static MAP: OnceLock<ByName> = OnceLock::new();
    let tables = [strings::ASCII, regexp::ASCII, pattern::ASCII_OPERATORS];
    let named = MAP.get_or_init(|| index(&tables)).get(function.name);
    let same = named.and_then(|all| all.iter().find(|one| one.arguments == function.arguments));
    same.copied().unwrap_or(function)
}

/// Creates a call of a function, in the variant for the collation of the arguments.
pub fn call(function: &'static Function, arguments: Vec<Expr>, ty: TypeOid, location: i32) -> Expr {
    let function = under(function, Collation::of_all(&arguments));
    Expr::new(ExprKind::Call { function, arguments }, ty, location)
}
