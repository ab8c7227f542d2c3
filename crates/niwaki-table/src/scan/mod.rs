//! Reads of rows: by address, by key, through indexes, and in the order of the heap.
//!
//! - `keys`: the conditions on the key columns of a scan.
//! - `tid_bitmap`: a set of addresses in bounded memory.
//! - `mark`: marks entries whose rows are dead to all snapshots.
//! - `covered`: values from index entries.
//! - `entries`: the entries of one leaf, and the rows to which they lead.
//! - `fetch`: reads single rows.
//! - `seq_scan`, `index_scan`, `bitmap_scan`: the scans.

pub(crate) mod bitmap_scan;
pub(crate) mod covered;
pub(crate) mod entries;
pub(crate) mod fetch;
pub(crate) mod index_scan;
pub(crate) mod keys;
pub(crate) mod mark;
pub(crate) mod seq_scan;
pub(crate) mod tid_bitmap;
