//! Hash tables. Their order of iteration is random: it is another one in each table, and in each
//! process.
//!
//! Whatever is done in that order (files are synced, tables are vacuumed, listeners are woken) is
//! done in another order in the next process. So randomness of tables belongs here, like any other:
//! under the deterministic scheduler keys have fixed hashes, and a seed gives the same schedules
//! again. That needs keys that are the same again, too: never an address where somebody iterates.
//!
//! A table is made by `default()`: `new()` exists for one kind of hashing only.

use std::hash::{BuildHasherDefault, DefaultHasher};

pub use hashbrown::HashTable;

/// Hashes that are the same in every table and process.
pub type FixedHash = BuildHasherDefault<DefaultHasher>;

/// How tables hash their keys.
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub type TableHash = hashbrown::DefaultHashBuilder;
/// How tables hash their keys: a schedule can be run again.
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub type TableHash = FixedHash;

/// A map whose order nobody may rely on.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, TableHash>;

/// A set whose order nobody may rely on.
pub type HashSet<T> = hashbrown::HashSet<T, TableHash>;
