//! The control file: the properties of the data directory, and the position where recovery begins.
//!
//! ```text
//! two slots, at 0 and 4096; the valid one with the higher sequence counts
//! 0   magic u64 "NIWAKCTL"   8   format u32         12  page bytes u32
//! 16  sequence u64           24  system u64         32  timeline u32
//! 36  state u32 (0 in use, 1 clean)
//! 40  redo u64               48  checkpoint u64     56  next file u64
//! 64  segment file bytes u64 72  segment blocks u32
//! 76  flags u32 (bits 0, 1: current table of files; bit 2: filled)
//! 80  time i64 (µs)          88  zero u32           92  crc32c u32 over bytes 0..92
//! 96  bytes of the table of files u32   100  its crc32c u32   104  crc32c u32 over bytes 0..104
//! ```

use std::io;
use std::sync::Arc;

use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_env::{Env, seeded_bug};

use super::cursor::Cursor;
use super::file_table::{TABLES, TablePlace};
use crate::error::{Corruption, Error, Result};
use crate::ids::Lsn;
use crate::page::PAGE_SIZE;

/// Version of everything on disk.
pub const FORMAT_VERSION: u32 = 2;
/// Name of the control file.
pub(crate) const CONTROL: &str = "control";
pub(crate) const NEW_CONTROL: &str = "control.new";
const MAGIC: u64 = u64::from_le_bytes(*b"NIWAKCTL");
/// Bits of the flags: the number of the current table of files, and whether the catalog was filled.
const TABLE: u32 = 3;
const FILLED: u32 = 4;
const SLOT_AT: [u64; 2] = [0, 4096];

// The slots do not overlap. A torn write damages one of them only.
const _: () = assert!(Control::BYTES as u64 <= SLOT_AT[1]);
const _: () = assert!(SLOT_AT[1].is_multiple_of(4096));
// The number of a table of files fits its flags, and the largest number names none.
const _: () = assert!(TABLES.len() < TABLE as usize);
const _: () = assert!(TABLE & FILLED == 0);

/// Contents of the control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Number of writes of this file.
    pub sequence: u64,
    /// Identifies the database; its log and its backups carry this number.
    pub system: u64,
    /// Timeline of the log.
    pub timeline: u32,
    /// The last thing that happened was a shutdown with everything written.
    pub clean: bool,
    /// Position where recovery begins.
    pub redo: Lsn,
    /// Position of the checkpoint record.
    pub checkpoint: Lsn,
    /// Next number of a relation file.
    pub next_file: u64,
    /// Bytes of a segment file of the log.
    pub wal_segment_bytes: u64,
    /// Pages of a segment file of a relation.
    pub segment_blocks: u32,
    /// The current table of files.
    pub files: TablePlace,
    /// The first database's catalog was filled: the directory is not new any more.
    pub filled: bool,
    /// Time of the write, in microseconds since 1970.
    pub time_us: i64,
}

impl Control {
    /// Bytes of a slot.
    pub const BYTES: usize = 108;

    /// Encodes a slot.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.system.to_le_bytes());
        out[32..36].copy_from_slice(&self.timeline.to_le_bytes());
        out[36..40].copy_from_slice(&u32::from(self.clean).to_le_bytes());
        out[40..48].copy_from_slice(&self.redo.0.to_le_bytes());
        out[48..56].copy_from_slice(&self.checkpoint.0.to_le_bytes());
        out[56..64].copy_from_slice(&self.next_file.to_le_bytes());
        out[64..72].copy_from_slice(&self.wal_segment_bytes.to_le_bytes());
        out[72..76].copy_from_slice(&self.segment_blocks.to_le_bytes());
        let flags = self.files.number | if self.filled { FILLED } else { 0 };
        out[76..80].copy_from_slice(&flags.to_le_bytes());
        out[80..88].copy_from_slice(&self.time_us.to_le_bytes());
        let crc = crc32c::crc32c(&out[..92]);
        out[92..96].copy_from_slice(&crc.to_le_bytes());
        out[96..100].copy_from_slice(&self.files.bytes.to_le_bytes());
        out[100..104].copy_from_slice(&self.files.crc.to_le_bytes());
        let crc = crc32c::crc32c(&out[..104]);
        out[104..108].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a slot; `Ok(None)` when the bytes are no sound slot.
    ///
    /// # Errors
    /// [`Error::Refused`] for a slot of another format version.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let mut cursor = Cursor(bytes);
        let (Some(MAGIC), Some(format)) = (cursor.u64(), cursor.u32()) else { return Ok(None) };
        if format != FORMAT_VERSION {
            return Err(Error::Refused(format!(
                "the data directory has format version {format}, this program reads and writes \
                 version {FORMAT_VERSION}: use the program that wrote it, or load a dump"
            )));
        }
        let Some(page_bytes) = cursor.u32() else { return Ok(None) };
        let control = Self::decode_rest(bytes, cursor);
        if control.is_some() && page_bytes as usize != PAGE_SIZE {
            return Err(Error::Refused(format!(
                "the data directory has pages of {page_bytes} bytes, this program reads and writes \
                 pages of {PAGE_SIZE}: use the program that wrote it, or load a dump"
            )));
        }
        Ok(control)
    }

    /// Decodes the fields behind the page size, if the slot is sound.
    fn decode_rest(bytes: &[u8], mut cursor: Cursor<'_>) -> Option<Self> {
        let mut control = Self {
            sequence: cursor.u64()?,
            system: cursor.u64()?,
            timeline: cursor.u32()?,
            clean: false,
            redo: Lsn(0),
            checkpoint: Lsn(0),
            next_file: 0,
            wal_segment_bytes: 0,
            segment_blocks: 0,
            files: TablePlace::default(),
            filled: false,
            time_us: 0,
        };
        let state = cursor.u32()?;
        control.clean = state == 1;
        control.redo = Lsn(cursor.u64()?);
        control.checkpoint = Lsn(cursor.u64()?);
        control.next_file = cursor.u64()?;
        control.wal_segment_bytes = cursor.u64()?;
        control.segment_blocks = cursor.u32()?;
        let flags = cursor.u32()?;
        control.files.number = flags & TABLE;
        control.filled = flags & FILLED != 0;
        control.time_us = cursor.u64()?.cast_signed();
        let zero = cursor.u32()?;
        let sound = cursor.u32()? == crc32c::crc32c(bytes.get(..92)?)
            && zero == 0
            && flags & !(TABLE | FILLED) == 0
            && control.files.number != TABLE
            && state <= 1
            && control.segment_blocks > 0
            && control.redo <= control.checkpoint;
        if !sound {
            return None;
        }
        (control.files.bytes, control.files.crc) = (cursor.u32()?, cursor.u32()?);
        // Directories older than the table of files have zeros here.
        let sealed = cursor.u32()? == crc32c::crc32c(bytes.get(..104)?);
        let none = (control.files, bytes.get(96..108)?) == (TablePlace::default(), &[0; 12]);
        (sealed || (none && !control.filled)).then_some(control)
    }
}

/// The open control file.
pub(crate) struct ControlFile {
    env: Env,
    /// Absent after the directory was shut down.
    file: Option<Arc<dyn VfsFile>>,
    pub(crate) current: Control,
}

impl ControlFile {
    /// Opens the file; `None` when there is none.
    pub(crate) fn open(env: &Env) -> Result<Option<Self>> {
        let file = match env.vfs.open_reserved(CONTROL, OpenMode::Existing) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("could not open the control file", e)),
        };
        let mut best: Option<Control> = None;
        for at in SLOT_AT {
            let mut bytes = [0; Control::BYTES];
            let got = file
                .read_at(&mut bytes, at)
                .map_err(|e| Error::io("could not read the control file", e))?;
            let older = seeded_bug!("older_control_counts");
            if let Some(found) = Control::decode(&bytes[..got])?
                && best.is_none_or(|b| {
                    if older { found.sequence < b.sequence } else { b.sequence < found.sequence }
                })
            {
                best = Some(found);
            }
        }
        let Some(current) = best else {
            return Err(Error::Corruption(Box::new(Corruption {
                file: CONTROL.into(),
                block: None,
                item: None,
                invariant: "format",
                detail: "neither slot is sound".into(),
            })));
        };
        Ok(Some(Self { env: env.clone(), file: Some(file), current }))
    }

    /// Creates the file; afterwards the data directory exists.
    pub(crate) fn create(env: &Env, control: Control) -> Result<Self> {
        let failed = |e| Error::io("could not create the control file", e);
        let file = env.vfs.open_reserved(NEW_CONTROL, OpenMode::CreateIfAbsent).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        file.write_at(&[0; 8192], 0).map_err(failed)?;
        let slot = SLOT_AT[(control.sequence % 2) as usize];
        file.write_at(&control.encode(), slot).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        env.vfs.rename(NEW_CONTROL, CONTROL).map_err(failed)?;
        env.vfs.sync_dir("").map_err(failed)?;
        Ok(Self { env: env.clone(), file: Some(file), current: control })
    }

    /// Closes the file, which is never written again.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Writes again, durably, the contents that were read. The previous process may have ended
    /// because its sync of this slot failed. The slot is then only in the system's memory, and the
    /// next write goes to the other slot.
    pub(crate) fn write_again(&self) -> Result<()> {
        self.write(&self.current)
    }

    /// Replaces the contents durably, by overwriting the slot that is not current. A failed sync
    /// ends the process.
    ///
    /// # Errors
    /// A failed write: it is unknown then which contents are on disk. Both are correct until a
    /// write happens that only one of them allows. So nothing may be written any more.
    pub(crate) fn replace(&mut self, mut control: Control) -> Result<()> {
        control.sequence = self.current.sequence + 1;
        let now = &self.current;
        debug_assert_eq!(control.system, now.system, "another database");
        debug_assert_eq!(control.segment_blocks, now.segment_blocks, "segments change their size");
        debug_assert!(
            control.redo >= now.redo,
            "recovery would begin earlier, at {}",
            control.redo
        );
        debug_assert!(control.checkpoint >= now.checkpoint, "an older checkpoint counts again");
        debug_assert!(control.next_file >= now.next_file, "a file number is given twice");
        debug_assert!(control.filled || !now.filled, "the directory is new again");
        self.write(&control)?;
        self.current = control;
        Ok(())
    }

    fn write(&self, control: &Control) -> Result<()> {
        let closed = || Error::Refused("the database is closed".to_owned());
        let file = self.file.as_ref().ok_or_else(closed)?;
        let others = !seeded_bug!("control_overwritten");
        let slot = SLOT_AT[if others { (control.sequence % 2) as usize } else { 0 }];
        let failed =
            |e| Error::io("could not write the control file, so nothing is written any more", e);
        let bytes = control.encode();
        debug_assert!(
            Control::decode(&bytes).is_ok_and(|read| read.as_ref() == Some(control)),
            "the next start would refuse {control:?}"
        );
        file.write_at(&bytes, slot).map_err(failed)?;
        if !seeded_bug!("control_unsynced")
            && let Err(e) = file.sync_data()
        {
            self.env.abort(&format!("could not sync the control file: {e}"));
        }
        Ok(())
    }
}
