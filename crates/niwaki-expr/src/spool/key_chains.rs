//! Chains of numbered rows with equal keys.

use std::hash::BuildHasher;

use niwaki_env::hash::{HashTable, TableHash};
use niwaki_env::memory;

use super::KeyTable;

/// The end of a chain.
pub const END: u32 = u32::MAX;

/// The rows of each key, in the order of their arrival.
#[derive(Default)]
pub struct KeyChains {
    keys: KeyTable,
    /// The first and the last row of each key.
    ends: Vec<(u32, u32)>,
    /// For each row, the next row with the same key.
    next: Vec<u32>,
}

/// Returns the bytes of a vector after `more` additions.
pub fn grown<T>(vector: &Vec<T>, more: usize) -> usize {
    let wanted = vector.len() + more;
    let capacity = vector.capacity();
    size_of::<T>() * if wanted > capacity { wanted.max(capacity * 2) } else { capacity }
}

impl KeyChains {
    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Decides whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        self.keys.memory() + grown(&self.ends, 0) + grown(&self.next, 0)
    }

    /// Decides whether a row with a key of this length fits within `budget` bytes, and within the
    /// available memory.
    #[inline]
    pub fn has_room(&self, key_bytes: usize, budget: usize) -> bool {
        let now = grown(&self.ends, 0) + grown(&self.next, 0);
        let rows = grown(&self.ends, 1) + grown(&self.next, 1);
        rows < budget
            && self.keys.has_room(key_bytes, budget - rows)
            && self.next.len() < END as usize
            && (rows <= now || memory::has_room(rows))
    }

    /// Adds the next row. A row without a key matches nothing.
    pub fn add(&mut self, key: Option<&[u8]>) {
        let number = self.next.len() as u32;
        self.next.push(END);
        let Some(key) = key else { return };
        let hash = self.keys.hash(key);
        if let Some(chain) = self.keys.find(hash, key) {
            let (_, last) = &mut self.ends[chain as usize];
            self.next[*last as usize] = number;
            *last = number;
        } else {
            self.keys.add(hash, key, &[]);
            self.ends.push((number, number));
        }
    }

    /// Returns the first row of a key.
    #[inline]
    pub fn first(&self, key: &[u8]) -> u32 {
        let chain = self.keys.find(self.keys.hash(key), key);
        chain.map_or(END, |chain| self.ends[chain as usize].0)
    }

    /// Returns the next row with the same key.
    #[inline]
    pub fn behind(&self, number: u32) -> u32 {
        self.next[number as usize]
    }

    /// Decides whether all rows have different keys.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.next.iter().all(|next| *next == END)
    }
}

/// Chains of rows whose keys are numbers.
#[derive(Default)]
pub struct NumberChains {
    /// Each key with its first and last row.
    keys: HashTable<(i64, u32, u32)>,
    hasher: TableHash,
    next: Vec<u32>,
}

impl NumberChains {
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Decides whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.keys.allocation_size() + grown(&self.next, 0)
    }

    /// Adds the next row.
    pub fn add(&mut self, key: i64) {
        let number = self.next.len() as u32;
        self.next.push(END);
        let hash = self.hasher.hash_one(key);
        if let Some((_, _, last)) = self.keys.find_mut(hash, |(known, ..)| *known == key) {
            self.next[*last as usize] = number;
            *last = number;
            return;
        }
        let hasher = &self.hasher;
        self.keys.insert_unique(hash, (key, number, number), |(key, ..)| hasher.hash_one(key));
    }

    /// Returns the first row of a key.
    #[inline]
    pub fn first(&self, key: i64) -> u32 {
        let found = self.keys.find(self.hasher.hash_one(key), |(known, ..)| *known == key);
        found.map_or(END, |(_, first, _)| *first)
    }

    /// Returns the next row with the same key.
    #[inline]
    pub fn behind(&self, number: u32) -> u32 {
        self.next[number as usize]
    }

    /// Decides whether all rows have different keys.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.keys.len() == self.next.len()
    }
}
