//! A page changed under a log record is there after a clean shutdown, and after a crash.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_storage::*;

/// A manager whose records say: this item was added to page 0 of the record.
struct Adder;

impl ResourceManager for Adder {
    fn manager(&self) -> Manager {
        Manager::Heap
    }
    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()> {
        if let RedoPage::NeedsRedo(mut page) = redo.page(0)? {
            if record.kind == 1 {
                page.init(PageKind::Heap, 16);
            }
            assert!(page.add_item(record.pages[0].data).is_some());
        }
        Ok(())
    }
}

fn open(env: &Env) -> (Arc<Storage>, RecoverySummary) {
    Storage::open(env.clone(), StorageOptions::tiny(), vec![Arc::new(Adder)]).unwrap()
}

fn add(storage: &Storage, id: PageId, item: &[u8]) -> Lsn {
    let pin = storage.pool().pin(id).unwrap();
    let mut page = pin.write();
    let _section = storage.begin_change().unwrap();
    let new = page.is_new();
    if new {
        page.init(PageKind::Heap, 16);
    }
    page.add_item(item).unwrap();
    let pieces = [item];
    let mode = if new { PageLog::Init } else { PageLog::Delta };
    let record = Record {
        manager: Manager::Heap,
        kind: u8::from(new),
        version: 1,
        xid: Xid(7),
        body: &[],
        pages: &mut [LoggedPage::new(&mut page, mode, &pieces)],
        removes: None,
    };
    storage.log(record).unwrap()
}

fn items(storage: &Storage, id: PageId) -> Vec<Vec<u8>> {
    let pin = storage.pool().pin(id).unwrap();
    let page = pin.read();
    (1..=page.item_count()).map(|n| page.item(OffsetNumber(n)).unwrap().to_vec()).collect()
}

fn work(storage: &Storage) -> (PageId, Lsn) {
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid(7)).unwrap();
    let grown = storage.pool().extend(file, Fork::Main, 100).unwrap();
    assert_eq!(grown.first, BlockNumber(0));
    let mut last = Lsn(0);
    for round in 0..3u8 {
        for block in 0..100 {
            let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) };
            last = add(storage, id, &[round, block as u8, 1, 2, 3]);
        }
    }
    (PageId { file: file.id, fork: Fork::Main, block: BlockNumber(42) }, last)
}

#[test]
fn survives_a_clean_shutdown() {
    let env = Env::memory();
    let (storage, summary) = open(&env);
    assert!(summary.created && !summary.recovered);
    let (id, _) = work(&storage);
    storage.shutdown(&[]).unwrap();
    assert!(storage.pool().is_idle());
    drop(storage);
    let (storage, summary) = open(&env);
    assert!(!summary.created && !summary.recovered, "{summary:?}");
    assert_eq!(items(&storage, id), [[0, 42, 1, 2, 3], [1, 42, 1, 2, 3], [2, 42, 1, 2, 3]]);
}

#[test]
fn survives_a_crash_after_the_flush() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: vfs.clone(), ..Env::memory() };
    let (storage, _) = open(&env);
    let (id, last) = work(&storage);
    storage.wal().flush(last);
    let crashed = Env { vfs: Arc::new(vfs.fork()), ..Env::memory() };
    let (storage, summary) = open(&crashed);
    assert!(summary.recovered && summary.end >= last, "{summary:?}");
    assert_eq!(items(&storage, id), [[0, 42, 1, 2, 3], [1, 42, 1, 2, 3], [2, 42, 1, 2, 3]]);
}
