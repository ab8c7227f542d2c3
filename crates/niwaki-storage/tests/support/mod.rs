//! A toy access method: numbered items on slotted pages, spread over the pages of a file.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::BTreeSet;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_storage::*;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const MOVE: u8 = 3;
const SPECIAL: usize = 16;

/// Redo of the toy's records.
#[derive(Debug)]
pub struct Toy;

impl ResourceManager for Toy {
    fn manager(&self) -> Manager {
        Manager::Heap
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()> {
        for (index, logged) in record.pages.iter().enumerate() {
            let RedoPage::NeedsRedo(mut page) = redo.page(index)? else { continue };
            if logged.init {
                page.init(PageKind::Heap, SPECIAL);
            }
            let adds = record.kind == ADD || (record.kind == MOVE && index == 1);
            if adds {
                page.add_item(logged.data).expect("an item that fitted once fits again");
            } else {
                remove(&mut page, logged.data);
            }
        }
        Ok(())
    }
}

fn remove(page: &mut Page, item: &[u8]) {
    let found = (1..=page.item_count()).map(OffsetNumber).find(|&n| page.item(n) == Some(item));
    assert!(page.remove_item(found.expect("the item is on the page")));
    page.compact();
}

/// Returns an item: its number, then bytes that depend on the number.
pub fn item(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + 40 + (number as usize * 7) % 200, number as u8);
    bytes
}

/// The toy on an open storage.
pub struct Items {
    pub storage: Arc<Storage>,
    pub file: RelFile,
}

pub fn open_with(env: &Env, options: StorageOptions) -> Result<(Arc<Storage>, RecoverySummary)> {
    Storage::open(env.clone(), options, vec![Arc::new(Toy)])
}

pub fn open(env: &Env) -> (Arc<Storage>, RecoverySummary) {
    open_with(env, StorageOptions::tiny()).expect("opens")
}

/// Makes an environment on these files.
pub fn env_on(vfs: Arc<dyn Vfs>) -> Env {
    Env { vfs, ..Env::memory() }
}

/// Copies the files as they are now, as a killed process leaves them.
pub fn crashed(vfs: &MemoryVfs) -> Env {
    env_on(Arc::new(vfs.fork()))
}

impl Items {
    pub fn create(storage: &Arc<Storage>) -> Self {
        let file = RelFile { id: storage.allocate_file(), logged: true };
        storage.create_file(file, Xid(3)).expect("creates a file");
        Self { storage: Arc::clone(storage), file }
    }

    pub fn on(storage: &Arc<Storage>, file: RelFile) -> Self {
        Self { storage: Arc::clone(storage), file }
    }

    pub fn page_id(&self, block: u32) -> PageId {
        PageId { file: self.file.id, fork: Fork::Main, block: BlockNumber(block) }
    }

    pub fn blocks(&self) -> u32 {
        self.storage.pool().blocks(self.file.id, Fork::Main).expect("length")
    }

    pub fn extend(&self, count: u32) -> Result<Extension> {
        self.storage.pool().extend(self.file, Fork::Main, count)
    }

    /// Adds an item to a page that exists; `None` when it does not fit.
    pub fn add(&self, block: u32, bytes: &[u8]) -> Result<Option<Lsn>> {
        self.add_to(self.page_id(block), bytes)
    }

    /// Adds an item like [`Items::add`], to a page of any fork.
    pub fn add_to(&self, id: PageId, bytes: &[u8]) -> Result<Option<Lsn>> {
        let pin = self.storage.pool().pin(id)?;
        let mut page = pin.write();
        if !page.is_new() && page.free_for_item() < bytes.len() {
            return Ok(None);
        }
        let _section = self.storage.begin_change()?;
        let mode = if page.is_new() { PageLog::Init } else { PageLog::Delta };
        if mode == PageLog::Init {
            page.init(PageKind::Heap, SPECIAL);
        }
        page.add_item(bytes).expect("there is room");
        let pieces = [bytes];
        let lsn = self.log(ADD, &mut [LoggedPage::new(&mut page, mode, &pieces)])?;
        Ok(Some(lsn))
    }

    /// Removes an item that is on the page.
    pub fn remove(&self, block: u32, bytes: &[u8]) -> Result<Lsn> {
        let pin = self.storage.pool().pin(self.page_id(block))?;
        let mut page = pin.write();
        let _section = self.storage.begin_change()?;
        remove(&mut page, bytes);
        let pieces = [bytes];
        self.log(REMOVE, &mut [LoggedPage::delta(&mut page, &pieces)])
    }

    /// Moves an item to another page in one record.
    pub fn move_to(&self, from: u32, to: u32, bytes: &[u8]) -> Result<Option<Lsn>> {
        assert_ne!(from, to);
        let (one, other) = (
            self.storage.pool().pin(self.page_id(from))?,
            self.storage.pool().pin(self.page_id(to))?,
        );
        // Latches in the order of blocks.
        let (mut source, mut target) = if from < to {
            let source = one.write();
            (source, other.write())
        } else {
            let target = other.write();
            (one.write(), target)
        };
        if target.is_new() || target.free_for_item() < bytes.len() {
            return Ok(None);
        }
        let _section = self.storage.begin_change()?;
        remove(&mut source, bytes);
        target.add_item(bytes).expect("there is room");
        let pieces = [bytes];
        let lsn = self.log(
            MOVE,
            &mut [LoggedPage::delta(&mut source, &pieces), LoggedPage::delta(&mut target, &pieces)],
        )?;
        Ok(Some(lsn))
    }

    fn log(&self, kind: u8, pages: &mut [LoggedPage<'_>]) -> Result<Lsn> {
        self.storage.log(Record {
            manager: Manager::Heap,
            kind,
            version: 1,
            xid: Xid(3),
            body: &[b"toy"],
            pages,
            removes: (kind == REMOVE).then_some((Csn(1), Csn(2))),
        })
    }

    /// Returns the numbers of all items, and checks the items' contents.
    pub fn numbers(&self) -> Result<BTreeSet<u64>> {
        let mut numbers = BTreeSet::new();
        for block in 0..self.blocks() {
            let pin = self.storage.pool().pin(self.page_id(block))?;
            let page = pin.read();
            page.check_deep(self.page_id(block)).map_err(|c| Error::Corruption(Box::new(c)))?;
            for n in 1..=page.item_count() {
                let bytes = page.item(OffsetNumber(n)).expect("every item is stored");
                let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
                assert_eq!(bytes, item(number), "item {number} on block {block}");
                assert!(numbers.insert(number), "item {number} is there twice");
            }
        }
        Ok(numbers)
    }
}
