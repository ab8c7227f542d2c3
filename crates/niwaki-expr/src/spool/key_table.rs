//! A hash table that finds rows by their keys, with counted memory.
//!
//! Keys are index keys: equal values have equal bytes. The bytes of all keys and rows stand one
//! after the other.

use std::hash::BuildHasher;

use niwaki_env::hash::{HashTable, TableHash};
use niwaki_env::memory;

/// The least size in bytes that a buffer grows to.
const BYTES_MIN: usize = 256;

/// Rows by key. Each key occurs once, and has a number that counts from 0.
#[derive(Default)]
pub struct KeyTable {
    bytes: Vec<u8>,
    /// The end offset of each key, and the end offset of the row behind that key.
    ends: Vec<(usize, usize)>,
    table: HashTable<u32>,
    hasher: TableHash,
}

impl KeyTable {
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Decides whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn begin(&self, number: u32) -> usize {
        let before = (number as usize).checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |(_, end)| *end)
    }

    /// Returns a key by its number.
    #[inline]
    pub fn key(&self, number: u32) -> &[u8] {
        let end = self.ends.get(number as usize).map_or(0, |(end, _)| *end);
        self.bytes.get(self.begin(number)..end).unwrap_or_default()
    }

    /// Returns the row that was added with the key.
    #[inline]
    pub fn row(&self, number: u32) -> &[u8] {
        let (begin, end) = self.ends.get(number as usize).copied().unwrap_or_default();
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// Returns the number of a key, or `None` if the table does not have the key.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| self.key(*number) == key).copied()
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<(usize, usize)>()
            + self.table.allocation_size()
    }

    /// Decides whether a key and a row with this many bytes together fit within `budget` bytes, and
    /// within the available memory. The first key always fits.
    #[inline]
    pub fn has_room(&self, bytes: usize, budget: usize) -> bool {
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

    /// Adds a new key with its hash and a row, and returns its number.
    pub fn add(&mut self, hash: u64, key: &[u8], row: &[u8]) -> u32 {
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
