//! Sorted keys in a temporary file, with a sparse index in memory.
//!
//! ```text
//! file:   [length key] [length key] … | [length key] … | …    at least `stretch_bytes` a stretch
//! fences:  first key, offset           first key, offset        in memory
//! ```
//!
//! When the fences outgrow their share of the memory, every second fence goes, and stretches become
//! twice as long. So a look-up is right with any amount of memory, only slower.

use std::cmp::Ordering;

use niwaki_env::memory;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, Sorter, TempFile};

use crate::expr::Runtime;

/// The size in bytes of the length before each key in the file.
const LENGTH_BYTES: usize = 4;

/// The fences' share of the memory for a hash table: one part in this number.
const FENCES_SHARE: usize = 4;

/// Sorted keys in a file.
pub(super) struct SortedKeys {
    file: TempFile,
    fences: Fences,
    /// The bytes of the file that were read last.
    buffer: Vec<u8>,
}

/// The first keys of the file's stretches, and the offsets at which the stretches begin.
#[derive(Default)]
struct Fences {
    keys: Vec<u8>,
    /// The end of each key in `keys`, and the offset of the key's stretch.
    ends: Vec<(usize, u64)>,
}

impl Fences {
    fn key(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.keys[begin..self.ends[number].0]
    }

    fn push(&mut self, key: &[u8], offset: u64) {
        self.keys.extend_from_slice(key);
        self.ends.push((self.keys.len(), offset));
    }

    /// Returns the bytes of memory.
    fn memory(&self) -> usize {
        self.keys.capacity() + self.ends.capacity() * size_of::<(usize, u64)>()
    }

    /// Removes every second fence.
    fn thin(&mut self) {
        let mut kept = Self::default();
        for number in (0..self.ends.len()).step_by(2) {
            kept.push(self.key(number), self.ends[number].1);
        }
        *self = kept;
    }

    /// Returns the begin and end of the stretch that may have the key; `None` if the key stands
    /// before all stretches. `len` is the file's length in bytes.
    fn stretch(&self, key: &[u8], len: u64) -> Option<(u64, u64)> {
        // Searches for the first fence that is greater than the key.
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        let begin = self.ends.get(low.checked_sub(1)?)?.1;
        Some((begin, self.ends.get(low).map_or(len, |(_, offset)| *offset)))
    }
}

impl SortedKeys {
    /// Writes the keys of a sort to a file, each once.
    pub(super) fn of(sorter: Sorter<KeyedRows>, rt: &mut Runtime<'_, '_>) -> Result<Self> {
        let chunk = rt.exec.temp_chunk;
        let budget = rt.exec.hash_mem / FENCES_SHARE;
        let mut sorted =
            Sorter::finish(vec![sorter], &mut || rt.exec.environment.check_interrupts())?;
        let mut file = rt.temp()?.create()?;
        let (mut fences, mut stretch_bytes) = (Fences::default(), chunk as u64);
        let (mut buffer, mut last) = (Vec::new(), Vec::new());
        while let Some(record) = sorted.next()? {
            rt.tick()?;
            if !fences.ends.is_empty() && record.key == last {
                continue;
            }
            last.clear();
            last.extend_from_slice(record.key);
            let offset = file.len() + buffer.len() as u64;
            let begun = fences.ends.last().map(|(_, begin)| offset - begin);
            if begun.is_none_or(|bytes| bytes >= stretch_bytes) {
                fences.push(record.key, offset);
                let too_many = |bytes: usize| bytes > budget || !memory::has_room(bytes);
                // Ends: each turn leaves half of the fences.
                while too_many(fences.memory()) && fences.ends.len() > 1 {
                    fences.thin();
                    stretch_bytes = stretch_bytes.saturating_mul(2);
                }
            }
            let too_long = |_| SqlError::new("54000", "a row is too large to be sorted or hashed");
            let length = u32::try_from(record.key.len()).map_err(too_long)?;
            buffer.extend_from_slice(&length.to_le_bytes());
            buffer.extend_from_slice(record.key);
            if buffer.len() >= chunk {
                file.append(&buffer)?;
                buffer.clear();
            }
        }
        file.append(&buffer)?;
        buffer.clear();
        Ok(Self { file, fences, buffer })
    }

    /// Decides whether the file has a key. Reads a chunk at a time.
    pub(super) fn contain(&mut self, key: &[u8], rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let Some((mut at, end)) = self.fences.stretch(key, self.file.len()) else {
            return Ok(false);
        };
        self.buffer.clear();
        let mut begin = 0;
        // Ends: every turn reads on.
        loop {
            while let Some(found) = key_at(&self.buffer, begin) {
                match found.cmp(key) {
                    Ordering::Equal => return Ok(true),
                    Ordering::Greater => return Ok(false),
                    Ordering::Less => begin += LENGTH_BYTES + found.len(),
                }
            }
            if at >= end {
                return Ok(false);
            }
            at = self.read_on(&mut begin, at, end, rt)?;
        }
    }

    /// Decides whether some key satisfies `test`. Reads a chunk at a time, from the first on.
    pub(super) fn any(
        &mut self,
        test: &mut dyn FnMut(&[u8]) -> bool,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let (mut at, end) = (0, self.file.len());
        self.buffer.clear();
        let mut begin = 0;
        // Ends: every turn reads on.
        loop {
            while let Some(found) = key_at(&self.buffer, begin) {
                if test(found) {
                    return Ok(true);
                }
                begin += LENGTH_BYTES + found.len();
            }
            if at >= end {
                return Ok(false);
            }
            at = self.read_on(&mut begin, at, end, rt)?;
        }
    }

    /// Drops the buffer's bytes before `begin`, and reads the next chunk of the file behind the
    /// rest. Returns the new file position.
    fn read_on(
        &mut self,
        begin: &mut usize,
        at: u64,
        end: u64,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<u64> {
        let chunk = rt.exec.temp_chunk;
        rt.tick()?;
        self.buffer.drain(..std::mem::take(begin));
        let more = (end - at).min(chunk.max(1) as u64);
        let held = self.buffer.len();
        self.buffer.resize(held + usize::try_from(more).unwrap_or(chunk), 0);
        self.file.read_exact_at(&mut self.buffer[held..], at)?;
        Ok(at + more)
    }
}

/// Returns the key that begins at `at`, if all its bytes are there.
fn key_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let (length, rest) = bytes.get(at..)?.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_begins_at_the_last_fence_that_is_not_greater() {
        let mut fences = Fences::default();
        for (number, key) in [b"b", b"d", b"f", b"h", b"j"].into_iter().enumerate() {
            fences.push(key, number as u64 * 10);
        }
        assert_eq!(fences.stretch(b"a", 50), None);
        assert_eq!(fences.stretch(b"b", 50), Some((0, 10)));
        assert_eq!(fences.stretch(b"e", 50), Some((10, 20)));
        assert_eq!(fences.stretch(b"z", 50), Some((40, 50)));
        fences.thin();
        assert_eq!(fences.stretch(b"e", 50), Some((0, 20)));
        assert_eq!(fences.stretch(b"f", 50), Some((20, 40)));
        fences.thin();
        fences.thin();
        assert_eq!(fences.stretch(b"z", 50), Some((0, 50)));
        assert_eq!(fences.stretch(b"a", 50), None);
    }
}
