//! Roles, which own everything.

use niwaki_catalog::{Oid, PUBLIC_SCHEMA};

/// The role that owns everything and may do everything.
pub(crate) const OWNER: Oid = Oid(10);
pub(crate) const OWNER_NAME: &str = "postgres";
/// The role that stands for the owner of the database. It owns schema `public`.
pub const DATABASE_OWNER: (Oid, &str) = (Oid(6171), "pg_database_owner");
/// All roles, with their numbers.
pub(crate) const ROLES: [(Oid, &str); 2] = [(OWNER, OWNER_NAME), DATABASE_OWNER];

/// Returns the owner of a schema.
pub(crate) fn owner_of(schema: Oid) -> &'static str {
    if schema == PUBLIC_SCHEMA { DATABASE_OWNER.1 } else { OWNER_NAME }
}
