//! Hash tables with random order of iteration, different in each table and each process.
//!
//! Work in that order (files are synced, tables are vacuumed, listeners are woken) happens in
//! another order in the next process. So the randomness of tables belongs here, like any other.
//! Under the deterministic scheduler keys have fixed hashes, so that a seed gives the same
//! schedules again. For that, the keys must be the same again, too: never use an address as key of
//! a table that is iterated.
//!
//! `default()` makes a table: `new()` exists for one kind of hashing only.

use std::hash::{BuildHasherDefault, DefaultHasher};

pub use hashbrown::HashTable;

/// Hashes that are the same in every table and process.
pub type FixedHash = BuildHasherDefault<DefaultHasher>;

/// The hashing of keys in tables.
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub type TableHash = hashbrown::DefaultHashBuilder;
/// The hashing of keys in tables: fixed, so that a schedule can be run again.
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub type TableHash = FixedHash;

/// A map; no code may rely on its order.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, TableHash>;

/// A set; no code may rely on its order.
pub type HashSet<T> = hashbrown::HashSet<T, TableHash>;
