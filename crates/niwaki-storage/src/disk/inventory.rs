//! Comparison of the relation files on disk with the known facts about them (invariant F1).

use std::collections::BTreeMap;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::vfs::OpenMode;

use super::file_table::{KnownFile, Runs, encode, too_short};
use super::files::Files;
use crate::error::{Error, Result};
use crate::ids::{BASE, FORKS, Fork, PageId, RelFileId, Xid};
use crate::page::PAGE_SIZE;

/// Folder for files that the catalog does not name, and that no record dropped.
pub(crate) const ASIDE: &str = "aside";

impl Files {
    /// Returns the facts about a fork that is not open yet, from the last checkpoint and the log.
    pub(crate) fn expected(&self, file: RelFileId, fork: Fork) -> Option<KnownFile> {
        // Maps are hints: missing map pages only mean that hints were forgotten.
        if fork != Fork::Main || seeded_bug!("missing_file_is_empty") {
            return None;
        }
        self.known.lock().get(&file).cloned()
    }

    /// Returns whether this page was written, so that its bytes cannot be zeros.
    pub(crate) fn was_written(&self, id: PageId) -> bool {
        // Acquire: pairs with the release in `end_redo`. Redo may read a page that a later record
        // cuts off.
        let redo = self.recovering.load(Ordering::Acquire);
        if id.fork != Fork::Main || redo || seeded_bug!("zeros_are_new") {
            return false;
        }
        let open = self.forks.read().get(&(id.file, id.fork)).cloned();
        open.is_some_and(|fork| fork.written.lock().has(id.block))
    }

    /// Returns whether a missing page, named by a record, lies in or behind a lost part of its
    /// file. Adding the page would fill that part with zeros, and hide the loss.
    pub(crate) fn lost_its_end(&self, id: PageId) -> Result<bool> {
        let Some(known) = self.expected(id.file, id.fork).filter(|known| known.logged) else {
            return Ok(false);
        };
        let fork = self.fork(id.file, id.fork)?;
        Ok(id.block.0 >= fork.blocks() && fork.lacks_of(&known))
    }

    /// Applies a truncation in the log to the facts about the main fork.
    pub(crate) fn truncate_known(&self, file: RelFileId, blocks: u32) -> Result<()> {
        if let Some(known) = self.known.lock().get_mut(&file) {
            known.blocks = known.blocks.min(blocks);
            known.written.truncate(blocks);
        }
        self.fork(file, Fork::Main)?.written.lock().truncate(blocks);
        Ok(())
    }

    /// Ends redo: from here on, files must have their known blocks. With `adopt`, no facts were
    /// recorded before, and the files that exist are taken as they are.
    ///
    /// # Errors
    /// A file that redo met lost its end.
    pub(crate) fn end_redo(&self, clean: bool, adopt: bool) -> Result<()> {
        if !clean {
            self.forget_unlogged();
        }
        if adopt {
            for file in self.list()? {
                let blocks = self.fork(file, Fork::Main)?.blocks();
                let entry = KnownFile { blocks, ..KnownFile::new(true, Xid::INVALID) };
                self.known.lock().entry(file).or_insert(entry);
            }
        }
        // Release: pairs with the acquire of a session that opens a fork or reads a page.
        self.recovering.store(false, Ordering::Release);
        // Works on a copy, without the lock of `known`: opening a fork takes that lock while it
        // holds the lock of the forks.
        let known = self.all_known();
        for fork in self.open_forks().iter().filter(|fork| fork.name().1 == Fork::Main) {
            let file = fork.name().0;
            let known = known.get(&file).filter(|known| known.logged);
            if let Some(known) = known.filter(|known| fork.lacks_of(known)) {
                return Err(too_short(file, known, *fork.found.lock()));
            }
        }
        self.check_open_forks()
    }

    /// Forgets the contents of files that are not logged: a crash empties them.
    fn forget_unlogged(&self) {
        let mut emptied = Vec::new();
        for (file, entry) in self.known.lock().iter_mut().filter(|(_, entry)| !entry.logged) {
            (entry.blocks, entry.written) = (0, Runs::default());
            emptied.push(*file);
        }
        let forks = self.forks.read();
        let open = emptied.into_iter().filter_map(|file| forks.get(&(file, Fork::Main)));
        open.for_each(|fork| fork.written.lock().truncate(0));
    }

    /// Encodes the table of files as of now. A sync after this call makes everything in the table
    /// durable.
    pub(crate) fn table(&self) -> Vec<u8> {
        let mut known = self.all_known();
        for (file, entry) in &mut known {
            let open = self.forks.read().get(&(*file, Fork::Main)).cloned();
            if let Some(fork) = open {
                // Copies the runs first: no run may reach beyond the length. A concurrent
                // truncation has its record behind the redo position.
                entry.written = fork.written.lock().clone();
                entry.blocks = fork.blocks();
                entry.written.truncate(entry.blocks);
            }
        }
        encode(&known)
    }

    /// Returns the relation files that should exist, with their creators.
    pub(crate) fn all_known(&self) -> BTreeMap<RelFileId, KnownFile> {
        self.known.lock().iter().map(|(file, entry)| (*file, entry.clone())).collect()
    }

    /// Returns whether all bytes of a relation's files are zeros: nothing was ever written to them.
    pub(crate) fn is_blank(&self, file: RelFileId) -> Result<bool> {
        let vfs = &self.env().vfs;
        let failed = |e| Error::io(format!("could not read the files of {file}"), e);
        let mut bytes = vec![0; 32 * PAGE_SIZE];
        for name in self.names_of(file)? {
            let open = vfs.open(&format!("{BASE}/{name}"), OpenMode::Existing).map_err(failed)?;
            let mut offset = 0;
            // Ends: with the file.
            loop {
                let got = open.read_at(&mut bytes, offset).map_err(failed)?;
                if bytes[..got].iter().any(|&byte| byte != 0) {
                    return Ok(false);
                }
                if got == 0 {
                    break;
                }
                offset += got as u64;
            }
        }
        Ok(true)
    }

    /// Returns the names of all files of a relation: all forks, maps included, and all segments.
    fn names_of(&self, file: RelFileId) -> Result<Vec<String>> {
        let names = self.env().vfs.list(BASE);
        let mut names = names.map_err(|e| Error::io(format!("could not list {BASE}"), e))?;
        let prefix = format!("{file}.");
        names.retain(|name| name.starts_with(&prefix));
        Ok(names)
    }

    /// Moves all files of a relation to [`ASIDE`], and returns their names there. No thread has the
    /// files open.
    pub(crate) fn move_aside(&self, file: RelFileId) -> Result<Vec<String>> {
        let vfs = &self.env().vfs;
        let failed = |e| Error::io(format!("could not move files of {file} to {ASIDE}"), e);
        vfs.create_dir(ASIDE).map_err(failed)?;
        let mut moved = Vec::new();
        for name in self.names_of(file)? {
            let mut to = format!("{ASIDE}/{name}");
            // Ends: the folder holds finitely many names.
            while vfs.exists(&to).map_err(failed)? {
                to.push_str(".again");
            }
            vfs.rename(&format!("{BASE}/{name}"), &to).map_err(failed)?;
            moved.push(to);
        }
        // The new names are synced first: a crash in between leaves both names, or the new ones.
        for folder in ["", ASIDE, BASE] {
            vfs.sync_dir(folder).map_err(failed)?;
        }
        self.known.lock().remove(&file);
        for fork in FORKS {
            self.forks.write().remove(&(file, fork));
        }
        Ok(moved)
    }
}
