//! The storage layer alone as the tested database: rows in slots of pages.
//!
//! A transaction is one log record. Log, images, checkpoints, eviction and recovery are Niwaki's
//! own. Visibility comes from the model, which keeps the sessions in memory. Every commit touches a
//! second file, which forces eviction. VACUUM truncates that file.
//!
//! A record holds the amount to add to a slot, so it is right only on the very page it was made
//! for. Applying a record twice, or out of turn, shows in the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{
    BlockNumber, CheckpointKind, DecodedRecord, Error, Fork, LoggedPage, Lsn, Manager, Page,
    PageId, PageKind, PageLog, PageWrite, Record, Redo, RedoPage, RelFile, RelFileId,
    ResourceManager, Result as StorageResult, Storage, StorageOptions, Xid,
};

use crate::model::{Key, Model, Reply, Rows, Step, Value};
use crate::tested_database::TestedDatabase;

/// Number of pages that hold rows; no more than one record may name.
const PAGES: i64 = 10;
/// Bytes from one slot to the next: half a sector, so that a torn page mixes old and new rows.
const SLOT_BYTES: usize = 256;
/// Number of pages whose only use is to push others out. A commit writes its number on the next
/// few.
const OTHER_PAGES: u32 = 40;
/// Number of other pages that one commit writes.
const OTHER_PAGES_EACH: u32 = 8;
/// Number of other pages that a cut leaves.
const KEPT_PAGES: u32 = 8;
/// Slots of the other pages: the last commit's number, and on the first page the number of the last
/// commit before a cut.
const NUMBER_SLOT: u16 = 0;
const CUT_SLOT: u16 = 1;
/// Bytes of the slot area.
const SPECIAL_BYTES: usize = 31 * SLOT_BYTES;
/// Bytes of a log segment: the least that is allowed, so that the log soon reuses segments.
const WAL_SEGMENT_BYTES: u64 = 16 << 10;
/// Numbers of two files: of the rows, and of the pages that push them out.
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

/// A slot and its new contents, 0 for no row. In a record, the amount to add to get the contents.
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
                    add(&mut guard, slot, number(&write[2..]));
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

fn contents(page: &Page, slot: u16) -> u64 {
    if page.is_new() { 0 } else { number(&page.special()[usize::from(slot) * SLOT_BYTES..]) }
}

fn add(page: &mut Page, slot: u16, difference: u64) {
    let contents = contents(page, slot).wrapping_add(difference);
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
    /// Any error of the storage.
    pub fn open(env: Env, full_page_writes: bool) -> StorageResult<Self> {
        let options = StorageOptions {
            shared_buffers: 24,
            full_page_writes,
            wal_segment_bytes: WAL_SEGMENT_BYTES,
            ..StorageOptions::tiny()
        };
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

    /// Returns the storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns all rows.
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
            for slot in 0..u16::try_from(SPECIAL_BYTES / SLOT_BYTES).expect("few slots") {
                let contents = contents(&page, slot);
                if contents != 0 {
                    let key = i64::from(slot) * PAGES + i64::from(block);
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
    /// Any error of the storage.
    pub fn commit(&self, rows: &BTreeMap<Key, Option<Value>>, number: u32) -> StorageResult<()> {
        let mut pages: BTreeMap<u32, Writes> = BTreeMap::new();
        for (key, value) in rows {
            let (block, slot) = place(*key);
            let contents = value.map_or(0, |value| value.cast_unsigned() + 1);
            pages.entry(block).or_default().insert(slot, contents);
        }
        let lsn = self.log(FILES[0], &pages)?;
        for nth in 0..OTHER_PAGES_EACH {
            let block = (number.wrapping_mul(OTHER_PAGES_EACH) + nth) % OTHER_PAGES;
            let writes = Writes::from([(NUMBER_SLOT, number.into())]);
            self.log(FILES[1], &BTreeMap::from([(block, writes)]))?;
        }
        self.storage.wal().flush(lsn)?;
        Ok(())
    }

    /// Takes most of the other pages away, and gives new ones. No other session may be at work.
    /// `number` is the number of the last commit.
    ///
    /// # Errors
    /// Any error of the storage.
    pub fn cut(&self, number: u32) -> StorageResult<()> {
        let file = RelFile { id: RelFileId(FILES[1]), logged: true };
        let mark = Writes::from([(CUT_SLOT, number.into())]);
        self.log(FILES[1], &BTreeMap::from([(0, mark)]))?;
        self.storage.truncate_fork(file, Fork::Main, KEPT_PAGES)?;
        self.storage.pool().extend(file, Fork::Main, OTHER_PAGES - KEPT_PAGES)?;
        Ok(())
    }

    fn log(&self, file: u64, pages: &BTreeMap<u32, Writes>) -> StorageResult<Lsn> {
        let pool = self.storage.pool();
        let pins = pages.keys().map(|block| pool.pin(page_id(file, *block)));
        let pins = pins.collect::<StorageResult<Vec<_>>>()?;
        let mut guards: Vec<PageWrite<'_>> = pins.iter().map(|pin| pin.write()).collect();
        let differences: Vec<Writes> =
            guards.iter().zip(pages.values()).map(|(page, writes)| against(page, writes)).collect();
        let data: Vec<Vec<u8>> = differences.iter().map(encode).collect();
        let pieces: Vec<[&[u8]; 1]> = data.iter().map(|data| [&data[..]]).collect();
        let section = self.storage.begin_change()?;
        let mut logged = Vec::new();
        for ((guard, writes), pieces) in guards.iter_mut().zip(&differences).zip(&pieces) {
            let mode = if guard.is_new() { PageLog::Init } else { PageLog::Delta };
            if mode == PageLog::Init {
                guard.init(PageKind::Heap, SPECIAL_BYTES);
            }
            for (slot, difference) in writes {
                add(guard, *slot, *difference);
            }
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

    /// Returns the number of the last commit, or of the one that a crash interrupted; 0 for none.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn last_commit(&self) -> StorageResult<u32> {
        let numbers = self.numbers()?;
        let last = numbers.iter().map(|(number, cut)| *number.max(cut)).max().unwrap_or(0);
        Ok(u32::try_from(last).expect("few commits"))
    }

    /// Returns both numbers of each other page.
    fn numbers(&self) -> StorageResult<Vec<(u64, u64)>> {
        let both = |block| {
            let pin = self.storage.pool().pin(page_id(FILES[1], block))?;
            let page = pin.read();
            Ok((contents(&page, NUMBER_SLOT), contents(&page, CUT_SLOT)))
        };
        (0..OTHER_PAGES).map(both).collect()
    }

    /// Requires that each other page has the number of the last commit that wrote it. The commit
    /// before that is right too if a crash interrupted the last one. A page that came new from a
    /// cut later than both may have no number. Works only for commits that were numbered in order.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn check_numbers(&self) -> Result<(), String> {
        let numbers = self.numbers().map_err(|error| error.to_string())?;
        let cut = numbers[0].1;
        let last = u64::from(self.last_commit().map_err(|error| error.to_string())?);
        let turns = u64::from(OTHER_PAGES / OTHER_PAGES_EACH);
        for (block, (number, _)) in (0..OTHER_PAGES).zip(&numbers) {
            let turn = u64::from(block / OTHER_PAGES_EACH);
            let since = (last + turns - turn) % turns;
            let before = last.saturating_sub(since + turns);
            let new = *number == 0 && block >= KEPT_PAGES && before <= cut;
            if *number < before && !new || number % turns != turn && *number != 0 {
                return Err(format!(
                    "page {block} was last written by commit {number} of {last}, cut after {cut}"
                ));
            }
        }
        Ok(())
    }

    /// Reads every page and requires that nothing is left pinned.
    ///
    /// # Errors
    /// A description of the fault.
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
    fn start(env: Env, full_page_writes: bool) -> StorageResult<Self> {
        let pages = Pages::open(env, full_page_writes)?;
        let durable = pages.rows()?;
        let sessions = Model::with_rows(&durable);
        let commits = pages.last_commit()?;
        Ok(Self { pages, durable, sessions, commits })
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

/// Returns the amounts to add to a page's slots to get `writes`.
fn against(page: &Page, writes: &Writes) -> Writes {
    let difference = |(slot, new): (&u16, &u64)| (*slot, new.wrapping_sub(contents(page, *slot)));
    writes.iter().map(difference).collect()
}

fn encode(writes: &Writes) -> Vec<u8> {
    let mut data = Vec::new();
    for (slot, difference) in writes {
        data.extend(slot.to_le_bytes());
        data.extend(difference.to_le_bytes());
    }
    data
}

impl TestedDatabase for PageStore {
    fn open(env: Env, full_page_writes: bool) -> Result<Self, String> {
        Self::start(env, full_page_writes).map_err(|error| error.to_string())
    }

    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String> {
        let text = |error: Error| error.to_string();
        let (reply, commit) = self.sessions.apply(session, step);
        if commit.is_some() {
            self.commit(self.sessions.visible(self.sessions.commits())).map_err(text)?;
        } else if *step == Step::Checkpoint {
            self.pages.storage.checkpoint(CheckpointKind::Requested, &[]).map_err(text)?;
        } else if *step == Step::Vacuum {
            self.pages.cut(self.commits).map_err(text)?;
        }
        Ok(reply)
    }

    fn rows(&mut self) -> Result<Rows, String> {
        self.pages.rows().map_err(|error| error.to_string())
    }

    fn check(&mut self) -> Result<(), String> {
        self.pages.check()?;
        self.pages.check_numbers()
    }
}
