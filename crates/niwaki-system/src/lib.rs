#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it in this list.

// Roles, which own everything.
pub mod roles;

// Numbers of the catalogs themselves.
mod class_numbers;

// The running database: activity, progress, counters, and views of Niwaki's own.
pub mod monitor;

// A system relation, with the functions that make its values.
mod system_relation;

// Names of objects.
pub mod names;

// Properties of types.
mod stored_types;

// `pg_class` and the catalogs around it.
mod pg_class;

// Relations of `information_schema`, and what catalogs show of domains.
mod information;

// Catalogs over the wings above.
mod constraints;
mod depend;
mod descriptions;
mod information_constraints;
mod types;

// Views that the running database fills.
pub mod live_views;

// All system relations.
pub mod catalogs;

#[cfg(test)]
mod tests;
