//! The part of `niwaki check` that storage does: it reads every page of every file, and the log.

use std::collections::BTreeSet;

use crate::directory::storage::Storage;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BlockNumber, FORKS, Fork, Lsn, PageId, RelFileId};
use crate::wal::encode::decode;
use crate::wal::read::WalReader;
use crate::wal::segment::WAL_FOLDER;

/// The counts and findings of [`Storage::check`].
#[derive(Clone, Debug, Default)]
pub struct StorageReport {
    /// Relation files visited.
    pub files: u64,
    /// Pages read.
    pub blocks: u64,
    /// Log records read.
    pub records: u64,
    /// Damage; empty when all is well.
    pub corruptions: Vec<Corruption>,
}

impl Storage {
    /// Reads every page of every fork, and the log from the last checkpoint on. Each page is
    /// checked for its checksum, its structure and W1 (its LSN is not beyond the log's end). No
    /// other thread should write meanwhile.
    ///
    /// # Errors
    /// Read errors; damage is no error but a finding.
    pub fn check(&self) -> Result<StorageReport> {
        let mut report = StorageReport::default();
        let known = self.known_files().into_iter().map(|(file, _)| file.id);
        let files: BTreeSet<RelFileId> = self.list_files()?.into_iter().chain(known).collect();
        for file in files {
            report.files += 1;
            for fork in FORKS {
                self.check_fork(file, fork, &mut report)?;
            }
        }
        self.check_log(&mut report)?;
        Ok(report)
    }

    fn check_fork(&self, file: RelFileId, fork: Fork, report: &mut StorageReport) -> Result<()> {
        let blocks = match self.pool.blocks(file, fork) {
            Ok(blocks) => blocks,
            Err(error) => {
                report.corruptions.push(error.into_damage()?);
                return Ok(());
            }
        };
        for block in 0..blocks {
            report.blocks += 1;
            let id = PageId { file, fork, block: BlockNumber(block) };
            let found = match self.pool.pin(id) {
                Ok(pin) => pin.read().check_deep(id).err(),
                Err(error) => Some(error.into_damage()?),
            };
            report.corruptions.extend(found);
        }
        Ok(())
    }

    fn check_log(&self, report: &mut StorageReport) -> Result<()> {
        let end = self.wal.insert_lsn();
        self.wal.flush(end)?;
        let mut reader = WalReader::new(&self.wal.segments, self.control().redo);
        let mut reached = Lsn(0);
        // Ends: with the log.
        while reached < end {
            let next = match reader.next()? {
                Some((bytes, at)) => decode(bytes, at).map(|record| record.lsn),
                None => break,
            };
            match next {
                Ok(lsn) => {
                    debug_assert!(lsn > reached, "the record at {lsn} is not behind {reached}");
                    reached = lsn;
                }
                Err(Error::Corruption(damage)) => report.corruptions.push(*damage),
                Err(other) => return Err(other),
            }
            report.records += 1;
        }
        let stopped = reader.end().end;
        if stopped < end {
            report.corruptions.push(Corruption {
                file: WAL_FOLDER.into(),
                block: None,
                item: None,
                invariant: "W2",
                detail: format!("no sound record at {stopped}, but the log ends at {end}"),
            });
        }
        Ok(())
    }
}
