//! Roles, which own everything.

use niwaki_catalog::{Oid, PUBLIC_SCHEMA};

/// The role that owns everything and may do everything.
pub(super) const OWNER: Oid = Oid(10);
pub(super) const OWNER_NAME: &str = "postgres";
/// The role that stands for the owner of the database. It owns schema `public`.
pub(crate) const DATABASE_OWNER: (Oid, &str) = (Oid(6171), "pg_database_owner");
/// All roles, with their numbers.
pub(super) const ROLES: [(Oid, &str); 2] = [(OWNER, OWNER_NAME), DATABASE_OWNER];

/// Returns the owner of a schema.
pub(super) fn owner_of(schema: Oid) -> &'static str {
    if schema == PUBLIC_SCHEMA { DATABASE_OWNER.1 } else { OWNER_NAME }
}
