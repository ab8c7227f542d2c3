//! Reads of rows: by address, by key, through indexes, and in the order of the heap.
//!
//! - `scan_keys`: the conditions on the key columns of a scan.
//! - `tid_bitmap`: a set of addresses in bounded memory.
//! - `dead_marks`: marks entries whose rows are dead to all snapshots.
//! - `index_only`: values from index entries.
//! - `entries`: the entries of one leaf, and the rows to which they lead.
//! - `fetch`: reads single rows.
//! - `seq_scan`, `index_scan`, `bitmap_scan`: the scans.

pub(crate) mod bitmap_scan;
pub(crate) mod dead_marks;
pub(crate) mod entries;
pub(crate) mod fetch;
pub(crate) mod index_only;
pub(crate) mod index_scan;
pub(crate) mod scan_keys;
pub(crate) mod seq_scan;
pub(crate) mod tid_bitmap;
