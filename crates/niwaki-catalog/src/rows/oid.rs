//! Numbers of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of an object of the catalog. Numbers below 16384 belong to PostgreSQL's and Niwaki's own
/// objects, the others to users' objects.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Oid(pub u32);

impl Oid {
    /// The number of no object.
    pub const INVALID: Self = Self(0);
    /// The first number of a user's object.
    pub const FIRST_USER: Self = Self(16384);
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
