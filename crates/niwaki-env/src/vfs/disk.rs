//! The model of a disk: its durable state, and unsynced changes that may reach it.
//!
//! ```text
//! program's view  =  durable state  +  every unsynced change, in order
//! after a crash   =  durable state  +  any part of them (see `image`)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::Content;
use super::parent;

/// Number of a file's body; names come and go, the body stays.
pub(super) type FileId = u64;

/// A change that the program asked for.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Name(NameChange),
    Body(FileId, BodyChange),
    /// The file's bytes and length are durable now.
    SyncData(FileId),
    /// The folder's names are durable now.
    SyncDir(String),
    /// An injected failed fsync: the system says "clean" although nothing was written.
    Forget(FileId),
}

/// A change of a folder.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create { path: String, file: FileId },
    Remove { path: String, file: FileId },
    Rename { from: String, to: String, file: FileId },
    CreateDir { path: String },
}

/// A change of a file's bytes or length.
#[derive(Clone, Debug)]
pub(super) enum BodyChange {
    Write {
        offset: u64,
        bytes: Arc<[u8]>,
    },
    SetLen {
        len: u64,
    },
    /// Grows the file to `end` if it is shorter.
    Allocate {
        end: u64,
    },
}

/// Names of files and folders.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) files: BTreeMap<String, FileId>,
    pub(super) folders: BTreeSet<String>,
}

/// A file's body.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    pub(super) durable: Content,
    pub(super) current: Content,
    pub(super) unsynced: Vec<BodyChange>,
}

/// A change of names together with the folders that must be synced before it is durable.
#[derive(Clone, Debug)]
pub(super) struct UnsyncedName {
    pub(super) change: NameChange,
    waits_for: BTreeSet<String>,
}

/// A disk with a volatile cache in front.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) bodies: BTreeMap<FileId, Body>,
    pub(super) names: Names,
    pub(super) durable_names: Names,
    pub(super) unsynced_names: Vec<UnsyncedName>,
    next_file: FileId,
}

impl Disk {
    /// Creates a disk on which the given files are durable.
    pub(super) fn with_durable(
        files: BTreeMap<String, Content>,
        folders: BTreeSet<String>,
    ) -> Self {
        let mut disk = Self::default();
        disk.names.folders = folders;
        for (path, content) in files {
            let file = disk.new_file();
            disk.names.files.insert(path, file);
            let body = Body { durable: content.clone(), current: content, unsynced: Vec::new() };
            disk.bodies.insert(file, body);
        }
        disk.durable_names = disk.names.clone();
        disk
    }

    pub(super) fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        self.next_file
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Name(change) => {
                if let NameChange::Create { file, .. } = change {
                    self.next_file = self.next_file.max(*file);
                    self.bodies.entry(*file).or_default();
                }
                change.apply(&mut self.names);
                let waits_for = change.folders();
                self.unsynced_names.push(UnsyncedName { change: change.clone(), waits_for });
            }
            Change::Body(file, change) => {
                let body = self.bodies.entry(*file).or_default();
                change.apply(&mut body.current);
                body.unsynced.push(change.clone());
            }
            Change::SyncData(file) => {
                let body = self.bodies.entry(*file).or_default();
                // Not simply `durable = current`: after `Forget` the two differ for good.
                for change in body.unsynced.drain(..) {
                    change.apply(&mut body.durable);
                }
            }
            Change::SyncDir(dir) => {
                for unsynced in &mut self.unsynced_names {
                    unsynced.waits_for.remove(dir);
                }
                let durable = &mut self.durable_names;
                self.unsynced_names.retain(|unsynced| {
                    if unsynced.waits_for.is_empty() {
                        unsynced.change.apply(durable);
                    }
                    !unsynced.waits_for.is_empty()
                });
            }
            Change::Forget(file) => {
                self.bodies.entry(*file).or_default().unsynced.clear();
            }
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Create { path, file } => {
                names.files.insert(path.clone(), *file);
            }
            Self::Remove { path, file } => {
                if names.files.get(path) == Some(file) {
                    names.files.remove(path);
                }
            }
            Self::Rename { from, to, file } => {
                if names.files.get(from) == Some(file) {
                    names.files.remove(from);
                }
                names.files.insert(to.clone(), *file);
            }
            Self::CreateDir { path } => {
                names.folders.insert(path.clone());
            }
        }
    }

    fn folders(&self) -> BTreeSet<String> {
        let folder = |path: &String| parent(path).to_owned();
        match self {
            Self::Create { path, .. } | Self::Remove { path, .. } | Self::CreateDir { path } => {
                BTreeSet::from([folder(path)])
            }
            Self::Rename { from, to, .. } => BTreeSet::from([folder(from), folder(to)]),
        }
    }
}

impl BodyChange {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write_at(bytes, *offset),
            Self::SetLen { len } => content.set_len(*len),
            Self::Allocate { end } => {
                if *end > content.len() {
                    content.set_len(*end);
                }
            }
        }
    }
}
