//! Names of types, in messages and in SQL text that a session writes itself.

use niwaki_catalog::{CatalogState, Oid};
use niwaki_sql::SqlError;
use niwaki_sql::types::{format_oid, format_type};
use niwaki_sql::utility::Name;
use niwaki_types::{ColumnType, TypeOid, UserTypes, quote_identifier};

/// Returns a type's name as messages show it.
pub fn shown_type(types: &UserTypes, oid: TypeOid) -> String {
    types.shown(oid).unwrap_or_else(|| format_oid(oid))
}

/// Returns a type's name with its modifier, as messages show it.
pub fn shown_with_modifier(types: &UserTypes, of: ColumnType) -> String {
    types.shown(of.declared()).unwrap_or_else(|| format_type(of))
}

/// Returns a type's name as SQL text that does not depend on the search path.
pub fn type_in_sql(state: &CatalogState, of: ColumnType) -> String {
    let user_type = of.declared().user_number().and_then(|number| state.user_type(Oid(number)));
    let Some(user_type) = user_type else { return format_type(of) };
    let schema = state.schema(user_type.schema).map(|schema| quote_identifier(&schema.name) + ".");
    let array = if of.declared() == user_type.type_oid() { "" } else { "[]" };
    format!("{}{}{array}", schema.unwrap_or_default(), quote_identifier(&user_type.name))
}

/// Returns the error 42601, because a user-defined type has no modifiers.
pub fn no_modifier(name: &Name) -> SqlError {
    SqlError::new("42601", format!("type modifier is not allowed for type \"{name}\""))
        .with_position(name.position)
}
