//! A reader of the log: record after record, up to the end, with the reason for the end.

use super::bit_flip;
use super::encode::{Header, RECORD_HEADER_SIZE, RECORD_MAX, is_intact, padded, place_of};
use super::segment::{SEGMENT_HEADER_SIZE, Segments};
use niwaki_env::seeded_bug;

use crate::error::{Corruption, Error, Result};
use crate::ids::Lsn;

/// Bytes read from disk at once.
const CHUNK: usize = 256 * 1024;
/// Bytes behind the end within which every position is searched for records that prove damage.
const SCAN_WHOLE: u64 = 32 << 20;
/// Bytes at the beginning of each segment that are searched farther away.
const SCAN_BEGINNING: u64 = 512 << 10;

const _: () = assert!(CHUNK > RECORD_HEADER_SIZE);
const _: () = assert!(SCAN_BEGINNING < SCAN_WHOLE);

/// The position where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEnd {
    /// Position of the next record.
    pub end: Lsn,
    /// Position of the last record.
    pub previous: Lsn,
}

/// Length of the longest record in which a wrong bit is searched, in bytes.
const FLIPPED_MAX: usize = 64 << 20;
const _: () = assert!(FLIPPED_MAX <= RECORD_MAX);

/// The reason why reading stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogEnd {
    /// Nothing was ever written behind the last record since the file was made ready.
    #[default]
    Empty,
    /// Other bytes follow: leftovers of an older use of the file, or a record that was not written
    /// whole. No commit in them was reported durable.
    Torn,
}

impl std::fmt::Display for LogEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "the log ends there",
            Self::Torn => {
                "what follows is a torn tail or an older use of the file, and nobody was told that \
                 it is durable"
            }
        })
    }
}

/// The result of a first reading of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The log was durable at least up to here, according to records or the control file.
    pub(crate) durable: Lsn,
    /// The end of the log.
    pub(crate) end: Lsn,
    /// The reason why the log ends there.
    pub(crate) stopped: LogEnd,
}

/// Reads records one after the other.
pub struct WalReader<'s> {
    segments: &'s Segments,
    /// Bytes of the log from `start` on.
    window: Vec<u8>,
    start: u64,
    position: u64,
    previous: u64,
}

impl std::fmt::Debug for WalReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WalReader").field("position", &self.position).finish_non_exhaustive()
    }
}

impl<'s> WalReader<'s> {
    pub(crate) fn new(segments: &'s Segments, from: Lsn) -> Self {
        let position = from.0;
        Self { segments, window: Vec::new(), start: position, position, previous: position }
    }

    /// Returns the current position, and the position of the record before it.
    pub(crate) fn end(&self) -> ReadEnd {
        debug_assert!(self.previous <= self.position, "the last record is at {}", self.previous);
        ReadEnd { end: Lsn(self.position), previous: Lsn(self.previous) }
    }

    /// Loads at least `count` bytes from `position` into the window; false when the log has fewer.
    fn fill(&mut self, position: u64, count: usize) -> Result<bool> {
        debug_assert!(position >= self.start, "{position} has left the window");
        if self.start + (self.window.len() as u64) < position {
            self.window.clear();
            self.start = position;
        }
        let within = (position - self.start) as usize;
        debug_assert!(within <= self.window.len(), "{position} lies behind the window");
        if self.window.len() - within >= count {
            return Ok(true);
        }
        self.window.drain(..within);
        self.start = position;
        // Ends: every round adds bytes, or returns.
        while self.window.len() < count {
            let have = self.window.len();
            self.window.resize(have + CHUNK, 0);
            let got = self.segments.read(position + have as u64, &mut self.window[have..]);
            self.window.truncate(have + *got.as_ref().unwrap_or(&0));
            if got? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the length of the record at `position`; `None` when no sound record is there.
    fn record_at(&mut self, position: u64) -> Result<Option<usize>> {
        if !self.fill(position, RECORD_HEADER_SIZE)? {
            return Ok(None);
        }
        let at = (position - self.start) as usize;
        let Some(header) = Header::get(&self.window[at..]) else { return Ok(None) };
        if header.place != place_of(Lsn(position)) && !seeded_bug!("stale_segment") {
            return Ok(None);
        }
        let length = header.length as usize;
        debug_assert!(length >= RECORD_HEADER_SIZE, "a record of {length} bytes was let in");
        if !self.fill(position, length)? {
            return Ok(None);
        }
        let at = (position - self.start) as usize;
        debug_assert!(at + length <= self.window.len(), "the window lacks a part of the record");
        Ok(is_intact(&self.window[at..at + length], Lsn(position)).then_some(length))
    }

    /// Returns the next record's bytes and position; `None` at the end of the log.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], Lsn)>> {
        let Some(length) = self.record_at(self.position)? else { return Ok(None) };
        let at = (self.position - self.start) as usize;
        self.previous = self.position;
        self.position += padded(length) as u64;
        debug_assert!(self.previous < self.position, "no progress at {}", self.position);
        Ok(Some((&self.window[at..at + length], Lsn(self.previous))))
    }

    /// Reads to the end of the log. Finds the end, and the position up to which the log is on the
    /// device for certain.
    ///
    /// `durable` is the position that the control file knows. A record's own durable position was
    /// true when the record was made, even if the record itself was not durable. `each` gets the
    /// bytes and position of every record.
    ///
    /// # Errors
    /// [`Error::Io`]; errors of `each`.
    pub(crate) fn survey(
        &mut self,
        durable: Lsn,
        each: &mut dyn FnMut(&[u8], Lsn) -> Result<()>,
    ) -> Result<Survey> {
        let mut durable = durable.0;
        // Ends: with the log.
        while let Some((bytes, at)) = self.next()? {
            let known = Header::get(bytes).map_or(u32::MAX, |header| header.durable);
            if known != u32::MAX {
                durable = durable.max(at.0.saturating_sub(u64::from(known)));
            }
            each(bytes, at)?;
        }
        let end = self.end().end;
        let mut behind = [0; RECORD_HEADER_SIZE];
        self.segments.read(end.0, &mut behind)?;
        let stopped = if behind == [0; RECORD_HEADER_SIZE] { LogEnd::Empty } else { LogEnd::Torn };
        Ok(Survey { durable: Lsn(durable).min(end), end, stopped })
    }

    /// Distinguishes a torn tail from damage.
    ///
    /// A later record may state that the log was durable beyond the place where reading stopped, or
    /// `durable` (from the control file) may be later. A record that is sound except for one bit
    /// was written whole. A segment has its header and its length before it has its name. So a
    /// wrong bit, a bad header and a short segment are damage, too.
    ///
    /// # Errors
    /// [`Error::Corruption`] (W2) for damage.
    pub(crate) fn check_end(&mut self, durable: Lsn) -> Result<()> {
        let end = self.position;
        if durable.0 > end {
            return Err(self.damage(end, durable.0));
        }
        let payload = self.segments.payload();
        for number in self.segments.list()?.into_iter().filter(|&number| number >= end / payload) {
            self.segments.check_whole(number)?;
        }
        self.check_wrong_bit(end)?;
        let mut last = end / payload;
        for number in self.segments.list()? {
            if number > last && self.segments.open(number)?.is_some() {
                last = number;
            }
        }
        let mut position = end;
        // Ends: `position` grows up to the end of the last segment.
        while position < (last + 1) * payload {
            // Far behind the end, the beginning of each segment is enough: records are everywhere.
            if position - end > SCAN_WHOLE && position % payload > SCAN_BEGINNING {
                position = (position / payload + 1) * payload;
                continue;
            }
            if !self.fill(position, RECORD_HEADER_SIZE)? {
                // This segment is missing or short: go on in the next.
                position = (position / payload + 1) * payload;
                continue;
            }
            let at = (position - self.start) as usize;
            let place = place_of(Lsn(position)).to_le_bytes();
            let claims_place = self.window[at + 8..at + 12] == place && position != end;
            if claims_place && self.record_at(position)?.is_some() {
                let at = (position - self.start) as usize;
                if let Some(header) = Header::get(&self.window[at..])
                    && header.durable != u32::MAX
                {
                    let durable = position.saturating_sub(u64::from(header.durable));
                    if durable > end {
                        return Err(self.damage(end, durable));
                    }
                }
            }
            position += 8;
        }
        Ok(())
    }

    /// Refuses an unsound record at `end` that was written whole: with one wrong bit, or of an
    /// unknown form.
    fn check_wrong_bit(&mut self, end: u64) -> Result<()> {
        if seeded_bug!("flip_is_tail") || !self.fill(end, RECORD_HEADER_SIZE)? {
            return Ok(());
        }
        let at = (end - self.start) as usize;
        let Some(head) = self.window[at..].first_chunk() else { return Ok(()) };
        for length in bit_flip::lengths(head, Lsn(end)) {
            // A wrong bit may give the length any value.
            if length > FLIPPED_MAX || !self.fill(end, length)? {
                continue;
            }
            let at = (end - self.start) as usize;
            let record = &self.window[at..at + length];
            let wrong = bit_flip::wrong_bit(record, Lsn(end));
            if let Some(bit) = wrong.filter(|bit| bit_flip::was_written(record, Lsn(end), *bit)) {
                let detail = format!(
                    "the record of {length} bytes at log position {end} is whole but for bit {} of \
                     its byte {}",
                    bit % 8,
                    bit / 8
                );
                return Err(self.damage_at(end, &detail));
            }
            if bit_flip::is_strange(record, Lsn(end)) {
                let detail = format!("the record at log position {end} is of an unknown form");
                return Err(self.damage_at(end, &detail));
            }
        }
        Ok(())
    }

    fn damage(&self, end: u64, durable: u64) -> Error {
        let detail = format!(
            "no sound record at log position {end}, but the log was durable up to {durable}"
        );
        self.damage_at(end, &detail)
    }

    fn damage_at(&self, end: u64, detail: &str) -> Error {
        let payload = self.segments.payload();
        Error::Corruption(Box::new(Corruption {
            file: self.segments.path(end / payload),
            block: None,
            item: None,
            invariant: "W2",
            detail: format!(
                "{detail}: this is damage at byte {} of the file, not the end of the log, and what \
                 was committed there would be lost; nothing was changed. Put a sound copy of the \
                 file in its place, or restore the directory from a backup",
                SEGMENT_HEADER_SIZE + end % payload
            ),
        }))
    }
}
