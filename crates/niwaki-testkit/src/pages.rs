//! The storage layer alone as a subject: rows in slots of pages, a transaction is one log record.
//!
//! Log, images, checkpoints, eviction and recovery are Niwaki's own; visibility is the model's, which
//! keeps the sessions in memory. A second file, which every commit touches, forces eviction.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{
    BlockNumber, CheckpointKind, DecodedRecord, Error, Fork, LoggedPage, Lsn, Manager, Page,
    PageId, PageKind, PageLog, PageWrite, Record, Redo, RedoPage, RelFile, RelFileId,
    ResourceManager, Result as StorageResult, Storage, StorageOptions, Xid,
};

use crate::model::{Key, Model, Reply, Rows, Step, Value};
use crate::subject::Subject;

/// Pages that hold rows; no more than one record may name.
const PAGES: i64 = 10;
/// Bytes from one slot to the next: half a sector, so that a torn page mixes old and new rows.
const SLOT_BYTES: usize = 256;
/// Pages that are only there to push others out.
const OTHER_PAGES: u32 = 40;
/// Bytes of the slot area.
const SPECIAL_BYTES: usize = 31 * SLOT_BYTES;
/// File of the rows, and of the pages that push them out.
const FILES: [u64; 2] = [16, 17];

/// The pages, to be shared between threads.
#[derive(Clone, Debug)]
pub struct Pages {
    storage: Arc<Storage>,
}

/// The store.
#[derive(Debug)]
pub struct PageStore {
    pages: Pages,
    durable: Rows,
    sessions: Model,
    commits: u32,
}

/// A slot and its new contents: 0 for no row.
type Writes = BTreeMap<u16, u64>;

struct Slots;

impl ResourceManager for Slots {
    fn manager(&self) -> Manager {
        Manager::Heap
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> StorageResult<()> {
        for (index, page) in record.pages.iter().enumerate() {
            if let RedoPage::NeedsRedo(mut guard) = redo.page(index)? {
                if page.init {
                    guard.init(PageKind::Heap, SPECIAL_BYTES);
                }
                for write in page.data.chunks_exact(10) {
                    let slot = u16::from_le_bytes([write[0], write[1]]);
                    put(&mut guard, slot, number(&write[2..]));
                }
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}

fn put(page: &mut Page, slot: u16, contents: u64) {
    let at = usize::from(slot) * SLOT_BYTES;
    page.special_mut()[at..at + 8].copy_from_slice(&contents.to_le_bytes());
}

fn place(key: Key) -> (u32, u16) {
    let page = u32::try_from(key % PAGES).expect("keys are not negative");
    (page, u16::try_from(key / PAGES).expect("few keys"))
}

fn page_id(file: u64, block: u32) -> PageId {
    PageId { file: RelFileId(file), fork: Fork::Main, block: BlockNumber(block) }
}

impl Pages {
    /// Opens the storage, recovers it, and makes the files if they are not there.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn open(env: Env) -> StorageResult<Self> {
        let options = StorageOptions { shared_buffers: 24, ..StorageOptions::tiny() };
        let (storage, _) = Storage::open(env, options, vec![Arc::new(Slots)])?;
        for (file, pages) in FILES.into_iter().zip([PAGES.unsigned_abs() as u32, OTHER_PAGES]) {
            let file = RelFile { id: RelFileId(file), logged: true };
            if !storage.file_exists(file.id)? {
                storage.create_file(file, Xid(3))?;
            }
            let there = storage.pool().blocks(file.id, Fork::Main)?;
            if there < pages {
                storage.pool().extend(file, Fork::Main, pages - there)?;
            }
        }
        Ok(Self { storage })
    }

    /// The storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// All rows.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn rows(&self) -> StorageResult<Rows> {
        let mut rows = Rows::new();
        for block in 0..PAGES.unsigned_abs() as u32 {
            let pin = self.storage.pool().pin(page_id(FILES[0], block))?;
            let page = pin.read();
            if page.is_new() {
                continue;
            }
            for slot in 0..page.special().len() / SLOT_BYTES {
                let contents = number(&page.special()[slot * SLOT_BYTES..]);
                if contents != 0 {
                    let key = i64::try_from(slot).unwrap_or(0) * PAGES + i64::from(block);
                    rows.insert(key, contents.cast_signed() - 1);
                }
            }
        }
        Ok(rows)
    }

    /// Writes all of `rows` (`None`: no row) in one record and returns when it is durable. `number`
    /// says which other pages to touch.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub fn commit(&self, rows: &BTreeMap<Key, Option<Value>>, number: u32) -> StorageResult<()> {
        let mut pages: BTreeMap<u32, Writes> = BTreeMap::new();
        for (key, value) in rows {
            let (block, slot) = place(*key);
            let contents = value.map_or(0, |value| value.cast_unsigned() + 1);
            pages.entry(block).or_default().insert(slot, contents);
        }
        let lsn = self.log(FILES[0], &pages)?;
        for nth in 0..8 {
            let block = (number.wrapping_mul(8) + nth) % OTHER_PAGES;
            let writes = Writes::from([(0, number.into())]);
            self.log(FILES[1], &BTreeMap::from([(block, writes)]))?;
        }
        self.storage.wal().flush(lsn);
        Ok(())
    }

    fn log(&self, file: u64, pages: &BTreeMap<u32, Writes>) -> StorageResult<Lsn> {
        let pool = self.storage.pool();
        let pins = pages.keys().map(|block| pool.pin(page_id(file, *block)));
        let pins = pins.collect::<StorageResult<Vec<_>>>()?;
        let data: Vec<Vec<u8>> = pages.values().map(encode).collect();
        let pieces: Vec<[&[u8]; 1]> = data.iter().map(|data| [&data[..]]).collect();
        let mut guards: Vec<PageWrite<'_>> = pins.iter().map(|pin| pin.write()).collect();
        let section = self.storage.begin_change()?;
        let mut logged = Vec::new();
        for ((guard, writes), pieces) in guards.iter_mut().zip(pages.values()).zip(&pieces) {
            let mode = if guard.is_new() { PageLog::Init } else { PageLog::Delta };
            if mode == PageLog::Init {
                guard.init(PageKind::Heap, SPECIAL_BYTES);
            }
            writes.iter().for_each(|(slot, contents)| put(guard, *slot, *contents));
            logged.push(LoggedPage::new(guard, mode, pieces));
        }
        let record = Record {
            manager: Manager::Heap,
            kind: 1,
            version: 1,
            xid: Xid(3),
            body: &[],
            pages: &mut logged,
            removes: None,
        };
        let lsn = self.storage.log(record)?;
        drop(section);
        Ok(lsn)
    }

    /// Reads every page and sees that nothing is left pinned.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !self.storage.pool().is_idle() {
            return Err("a page is pinned or being written".to_owned());
        }
        for (file, pages) in FILES.into_iter().zip([PAGES.unsigned_abs() as u32, OTHER_PAGES]) {
            for block in 0..pages {
                let id = page_id(file, block);
                self.storage.pool().pin(id).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl PageStore {
    fn start(env: Env) -> StorageResult<Self> {
        let pages = Pages::open(env)?;
        let durable = pages.rows()?;
        let sessions = Model::with_rows(&durable);
        Ok(Self { pages, durable, sessions, commits: 0 })
    }

    fn commit(&mut self, rows: Rows) -> StorageResult<()> {
        let changed = rows.iter().filter(|(key, value)| self.durable.get(key) != Some(value));
        let mut writes: BTreeMap<_, _> = changed.map(|(key, value)| (*key, Some(*value))).collect();
        let gone = self.durable.keys().filter(|key| !rows.contains_key(key));
        writes.extend(gone.map(|key| (*key, None)));
        self.commits += 1;
        self.pages.commit(&writes, self.commits)?;
        self.durable = rows;
        Ok(())
    }
}

fn encode(writes: &Writes) -> Vec<u8> {
    let mut data = Vec::new();
    for (slot, contents) in writes {
        data.extend(slot.to_le_bytes());
        data.extend(contents.to_le_bytes());
    }
    data
}

impl Subject for PageStore {
    fn open(env: Env) -> Result<Self, String> {
        Self::start(env).map_err(|error| error.to_string())
    }

    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String> {
        let text = |error: Error| error.to_string();
        let (reply, commit) = self.sessions.apply(session, step);
        if commit.is_some() {
            self.commit(self.sessions.visible(self.sessions.commits())).map_err(text)?;
        } else if *step == Step::Checkpoint {
            self.pages.storage.checkpoint(CheckpointKind::Requested, &[]).map_err(text)?;
        }
        Ok(reply)
    }

    fn rows(&mut self) -> Result<Rows, String> {
        self.pages.rows().map_err(|error| error.to_string())
    }

    fn check(&mut self) -> Result<(), String> {
        self.pages.check()
    }
}
