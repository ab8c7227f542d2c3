//! Rows found by their keys, in memory that is counted.
//!
//! Keys are index keys: equal values have equal bytes. The bytes of all keys and rows stand one after the other.

use std::hash::BuildHasher;

use niwaki_env::hash::{HashTable, TableHash};
use niwaki_env::memory;

/// Least bytes that a buffer grows to.
const BYTES_MIN: usize = 256;

/// Rows by key; each key is there once, and has a number, from 0 on.
#[derive(Default)]
pub(super) struct KeyTable {
    bytes: Vec<u8>,
    /// Where each key ends, and the row behind it.
    ends: Vec<(usize, usize)>,
    table: HashTable<u32>,
    hasher: TableHash,
}

impl KeyTable {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn begin(&self, number: u32) -> usize {
        let before = (number as usize).checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |(_, end)| *end)
    }

    pub(super) fn key(&self, number: u32) -> &[u8] {
        let end = self.ends.get(number as usize).map_or(0, |(end, _)| *end);
        self.bytes.get(self.begin(number)..end).unwrap_or_default()
    }

    /// The row that was added with the key.
    pub(super) fn row(&self, number: u32) -> &[u8] {
        let (begin, end) = self.ends.get(number as usize).copied().unwrap_or_default();
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// The number of a key; `None` if it is not there.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| self.key(*number) == key).copied()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<(usize, usize)>()
            + self.table.allocation_size()
    }

    /// Whether a key and a row of these bytes together fit within `budget` bytes, and within
    /// the memory that there is. The first may always.
    pub(super) fn has_room(&self, bytes: usize, budget: usize) -> bool {
        if self.ends.is_empty() {
            return true;
        }
        let grown = |capacity: usize, wanted: usize| {
            if wanted > capacity { wanted.max(capacity * 2).max(BYTES_MIN) } else { capacity }
        };
        let ends = grown(self.ends.capacity(), self.ends.len() + 1);
        let table = self.table.allocation_size();
        let table = if self.table.len() == self.table.capacity() { table * 2 } else { table };
        let after = grown(self.bytes.capacity(), self.bytes.len() + bytes)
            + ends * size_of::<(usize, usize)>()
            + table;
        after <= budget
            && self.ends.len() < u32::MAX as usize
            && (after <= self.memory() || memory::has_room(after))
    }

    /// Adds a key that is not there, with its hash, and a row; returns its number.
    pub(super) fn add(&mut self, hash: u64, key: &[u8], row: &[u8]) -> u32 {
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.ends.push((key_end, self.bytes.len()));
        let mut table = std::mem::take(&mut self.table);
        table.insert_unique(hash, number, |number| self.hasher.hash_one(self.key(*number)));
        self.table = table;
        number
    }
}
