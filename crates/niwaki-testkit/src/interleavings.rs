//! Scripted interleavings of the protocol's model (`niwaki-model`), played by the engine on one
//! table of two rows.
//!
//! Some actors change the table, some read it by every path, and some clean up. Each story is run
//! inside a schedule (`schedules`). Without the rule of its name it must fail in some schedule.

use std::ops::Range;
use std::sync::Arc;

use niwaki_env::sync::plain_atomic::{AtomicU32, Ordering};
use niwaki_env::sync::{thread, yield_point};
use niwaki_heap::VacuumRoots;
use niwaki_nbtree::EntryDecision;
use niwaki_storage::Xid;
use niwaki_table::HeapOnlyUpdates;
use niwaki_txn::Durability;

use crate::schedules::seed;
use crate::two_row_table::{ON_A, TwoRowTable, beside_an_old_snapshot, transaction};

/// Number of updates that fill a leaf a few times.
const CHURN: i32 = 1_500;

/// `recheck`: an old entry leads to the new version.
///
/// # Panics
/// When a scan and the heap give different rows, or an invariant does not hold.
pub fn recheck() {
    TwoRowTable::two_keys().play(vec![Box::new(TwoRowTable::read), Box::new(TwoRowTable::prune)]);
}

/// `unmix-counter`: an old entry is read and deleted, and the root cleared. Then the row is
/// fetched.
///
/// # Panics
/// As [`recheck`].
pub fn unmix_counter() {
    let fixture = TwoRowTable::two_keys();
    fixture.play(vec![Box::new(TwoRowTable::read), Box::new(TwoRowTable::clean)]);
    assert!(!fixture.has_mixed(), "nobody was in the cleaner's way");
}

/// `payload-rewritten`: the entry's payload is an older version's when the root is cleared.
///
/// # Panics
/// As [`recheck`].
pub fn cleaned_payload() {
    for_both(|fixture| {
        fixture.change(0, None, Some(2), true);
        fixture.play(vec![Box::new(TwoRowTable::read), Box::new(TwoRowTable::clean)]);
        assert!(!fixture.has_mixed(), "nobody was in the cleaner's way");
    });
}

/// `cleaning`: a key comes, and is rolled back, while a cleaner visits the indexes.
///
/// # Panics
/// As [`recheck`].
pub fn a_key_behind_the_cleaner() {
    for_both(|fixture| {
        fixture.change(0, Some(2), None, true);
        fixture.play(vec![
            Box::new(TwoRowTable::clean),
            Box::new(|fixture: &TwoRowTable| {
                fixture.change(0, Some(3), None, false);
                fixture.prune();
            }),
            Box::new(TwoRowTable::read),
        ]);
        fixture.clean();
        assert!(!fixture.has_mixed(), "nobody is in the cleaner's way any more");
        fixture.read();
    });
}

/// `one-hold`: a key that no version has any more comes back while its entry is removed.
///
/// # Panics
/// As [`recheck`].
pub fn a_key_back_before_the_gardener() {
    for_both(|fixture| {
        fixture.change(0, Some(2), None, true);
        fixture.play(vec![
            Box::new(|fixture: &TwoRowTable| {
                fixture.prune();
                // The next writer cleans up the entries of the pruned rows.
                fixture.change(1, None, Some(5), true);
            }),
            Box::new(|fixture: &TwoRowTable| fixture.change(0, Some(0), None, true)),
            Box::new(TwoRowTable::read),
        ]);
    });
}

/// Runs passes and writers until nothing is left to clean up.
fn clean_up(fixture: &TwoRowTable) {
    (0..3).for_each(|b| {
        fixture.settle();
        fixture.change(1, None, Some(b), true);
    });
}

/// `complete-record`: the record of the removed keys clears a root, while the root gets more keys
/// and loses them.
///
/// # Panics
/// As [`recheck`].
pub fn a_root_settles() {
    let fixture = TwoRowTable::two_versions();
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| {
            fixture.prune();
            // The next writer cleans up the entries of the pruned rows.
            fixture.change(1, None, Some(5), true);
            fixture.settle();
        }),
        Box::new(|fixture: &TwoRowTable| {
            fixture.change(0, Some(3), None, false);
            fixture.settle();
            fixture.change(0, Some(0), None, true);
            fixture.settle();
        }),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
    clean_up(&fixture);
    fixture.settle();
    fixture.read();
    fixture.check();
}

/// `unknown-seen`: a version comes while a reader looks at an entry of a computed key. No session
/// has computed the key of that version yet. The version has another key, so the entry is stale.
/// The entry stays counted until the key is computed.
///
/// # Panics
/// As [`recheck`].
pub fn a_computed_key_comes_meanwhile() {
    let fixture = TwoRowTable::two_computed_versions();
    fixture.prune();
    fixture.play(vec![
        // The next writer cleans up the entries of the pruned rows.
        Box::new(|fixture: &TwoRowTable| fixture.change(1, None, Some(5), true)),
        Box::new(|fixture: &TwoRowTable| fixture.change(0, Some(3), None, true)),
        Box::new(TwoRowTable::read),
    ]);
    clean_up(&fixture);
    fixture.settle();
    fixture.read();
    fixture.check();
}

/// `tended-while-dropped`: entries of an index wait for the gardener while the index is dropped.
/// Writers beside it know that the index takes no entries any more.
///
/// # Panics
/// When a change of the dropped file is logged (W4).
pub fn an_index_is_dropped_beside_the_gardener() {
    let fixture = TwoRowTable::two_versions();
    fixture.prune();
    let fixture = fixture.without_entries_on_a();
    let (dropping, writing) = (fixture.clone(), fixture.clone());
    let threads = [
        thread::spawn(move || dropping.drop_file_on_a()),
        // The next writer cleans up the entries of the pruned rows.
        thread::spawn(move || (4..7).for_each(|b| writing.change(1, None, Some(b), true))),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("an actor ends"));
}

/// `seen-early`: a root is cleared, and read, while the gardener works on its entries.
///
/// # Panics
/// As [`recheck`].
pub fn a_root_is_about_to_settle() {
    let fixture = TwoRowTable::two_versions();
    fixture.prune();
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| fixture.change(1, None, Some(5), true)),
        Box::new(TwoRowTable::settle),
        Box::new(TwoRowTable::read),
    ]);
}

/// A deleted row's entries and line pointer go. Meanwhile another row comes with its keys, perhaps
/// to its line pointer.
///
/// # Panics
/// As [`recheck`].
pub fn a_row_goes() {
    let mut fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    fixture.index_on_a_with(false, Vec::new());
    fixture.delete(0);
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| {
            fixture.prune();
            // The next writer cleans up the entries of the pruned rows.
            fixture.change(1, None, Some(5), true);
            fixture.settle();
        }),
        Box::new(|fixture: &TwoRowTable| {
            fixture.settle();
            fixture.insert(0, 0);
        }),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
    clean_up(&fixture);
    fixture.read();
    fixture.check();
}

/// `own-record`: an actor is late with the entries of a row. Another row has that line pointer by
/// now, and is gone too.
///
/// # Panics
/// As [`recheck`].
pub fn a_row_goes_twice() {
    let mut fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    fixture.index_on_a_with(false, Vec::new());
    fixture.delete(0);
    fixture.prune();
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| fixture.change(1, None, Some(5), true)),
        Box::new(|fixture: &TwoRowTable| {
            // Frees the line pointer, although other actors may remember it.
            fixture.clean();
            fixture.insert(6, 6);
            fixture.delete(6);
            fixture.settle();
        }),
        Box::new(TwoRowTable::settle),
    ]);
    fixture.settle();
    fixture.insert(7, 7);
    fixture.read();
    fixture.check();
}

/// `observer-epoch`: an index is built, with entries for rows that an old snapshot sees. The
/// snapshot goes. While the build ends, a pass removes these rows. The pass has read before that
/// there is no such index.
///
/// # Panics
/// As [`recheck`].
pub fn an_index_comes_beside_a_pass() {
    /// All rows on one page, which is pruned once. With more removed rows, the pass reports them
    /// for longer.
    const ROWS: i32 = 16;
    /// Most steps before the pass: about as many as a build takes.
    const STEPS_MAX: u64 = 2_000;
    let fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    (2..ROWS).for_each(|id| fixture.insert(id, id));
    let builder = beside_an_old_snapshot(&fixture.engine, || {
        (2..ROWS).for_each(|id| fixture.delete(id));
        let mut built = fixture.clone();
        let builder = thread::spawn(move || {
            built.index_on_a_with(false, Vec::new());
            built
        });
        (0..seed() % STEPS_MAX).for_each(|_| yield_point());
        builder
    });
    fixture.prune();
    let fixture = builder.join().expect("a build");
    clean_up(&fixture);
    fixture.settle();
    fixture.read();
    fixture.check();
}

/// `no-duplicates`, `revive`, `recheck`, `kill-unchanged`, `mixed-first`, `suppression-bumps`,
/// `unique-own-root`: a key changes to another one and back, beside readers and pruning.
///
/// # Panics
/// As [`recheck`].
pub fn there_and_back() {
    for_both(|fixture| {
        fixture.play(vec![
            Box::new(|fixture: &TwoRowTable| {
                fixture.change(0, Some(2), None, true);
                fixture.change(0, Some(0), None, true);
            }),
            Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
            Box::new(TwoRowTable::prune),
        ]);
    });
}

/// `over-any-version`, `over-any-snapshot`: an entry that only an old snapshot needs is noted as
/// over (in an expired prefix). A reader from before is beside it. Then the key comes back to the
/// row.
///
/// # Panics
/// As [`recheck`].
pub fn over_and_back() {
    for_both(|fixture| {
        beside_an_old_snapshot(&Arc::clone(&fixture.engine), || {
            let reader = || Box::new(|fixture: &TwoRowTable| (0..3).for_each(|_| fixture.read()));
            fixture.play(vec![
                Box::new(|fixture: &TwoRowTable| {
                    fixture.change(0, Some(2), None, true);
                    fixture.change(0, Some(0), None, true);
                }),
                reader(),
                reader(),
            ]);
        });
    });
}

/// `abort-keeps-mixed`: the entry of an update that was rolled back is read.
///
/// # Panics
/// As [`recheck`].
pub fn aborted() {
    for_both(|fixture| {
        fixture.play(vec![
            Box::new(|fixture: &TwoRowTable| {
                fixture.change(0, Some(2), None, false);
                fixture.prune();
                fixture.change(0, None, Some(2), true);
            }),
            Box::new(TwoRowTable::read),
        ]);
    });
}

/// `payload-mixes`: the payload of an entry is an older version's.
///
/// # Panics
/// As [`recheck`].
pub fn payload_changes() {
    for_both(|fixture| {
        fixture.play(vec![
            Box::new(|fixture: &TwoRowTable| fixture.change(0, None, Some(2), true)),
            Box::new(TwoRowTable::read),
        ]);
    });
}

/// `unique-all-versions`: the newest version has another key, and is rolled back.
///
/// # Panics
/// When two rows have one key; as [`recheck`].
pub fn key_of_a_rollback() {
    TwoRowTable::any_key(true).play(vec![
        Box::new(|fixture: &TwoRowTable| fixture.change(0, Some(2), None, false)),
        Box::new(|fixture: &TwoRowTable| fixture.insert(2, 0)),
    ]);
}

/// `unique-before-duplicate`: a row goes back to a key that another row has taken. Its old entry is
/// there.
///
/// # Panics
/// As [`key_of_a_rollback`].
pub fn key_taken_meanwhile() {
    TwoRowTable::any_key(true).play(vec![
        Box::new(|fixture: &TwoRowTable| {
            fixture.change(0, Some(2), None, true);
            fixture.change(0, Some(0), None, true);
        }),
        Box::new(|fixture: &TwoRowTable| fixture.insert(2, 0)),
    ]);
}

/// `map-under-latch`: a row is deleted and cleaned up, and then its whole page becomes all-visible.
/// Meanwhile a reader is on the way from the row's entry.
///
/// # Panics
/// As [`recheck`].
pub fn deleted_and_all_visible() {
    let fixture = TwoRowTable::any_key(false);
    fixture.delete(0);
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.clean())),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
}

/// `map-horizon`, `map-cleared`: rows come beside readers that do not see them, and passes set
/// pages all-visible.
///
/// # Panics
/// As [`recheck`].
pub fn all_visible_beside_readers() {
    let fixture = TwoRowTable::any_key(false);
    fixture.clean();
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| (2..4).for_each(|id| fixture.insert(id, id))),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.prune())),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
}

/// Rounds of the gardener beside sessions that read and change what it cleans up. Afterwards
/// nothing is left to do.
///
/// # Panics
/// When something is left to do at the end; as [`recheck`].
pub fn rounds_beside_writers() {
    // The page of a record that is lost on purpose is left to vacuum.
    #[cfg(feature = "sim")]
    niwaki_env::rare::start(None);
    let mut fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    // Payloads of mixed roots are left to vacuum.
    fixture.index_on_a_with(false, Vec::new());
    fixture.delete(0);
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| fixture.rounds(4)),
        Box::new(|fixture: &TwoRowTable| {
            fixture.change(1, Some(3), None, true);
            fixture.insert(0, 0);
        }),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
    fixture.rounds(6);
    assert_eq!(fixture.table.gardener_waiting(), 0, "nobody writes, and something is left");
    let (visible, blocks) = (fixture.table.all_visible_pages(), fixture.table.blocks());
    assert_eq!(visible.expect("a map"), blocks.expect("a table"), "pages that not all see");
    fixture.read();
    fixture.check();
}

/// `tail-believed`, `tail-map-stays`: a vacuum truncates the end of the heap. Another actor inserts
/// there, beside readers.
///
/// # Panics
/// When a row is lost; as [`recheck`].
pub fn a_tail_is_cut() {
    /// Number of rows, on some five pages.
    const ROWS: i32 = 80;
    let mut fixture = TwoRowTable::filled(HeapOnlyUpdates::AnyKey, 10);
    fixture.index_on_a_with(false, vec![2]);
    (2..ROWS).for_each(|id| fixture.insert(id, id));
    let (blocks, kept) = (fixture.blocks(), fixture.ids_on(0));
    (0..ROWS).filter(|id| !kept.contains(id)).for_each(|id| fixture.delete(id));
    assert_eq!(fixture.vacuum(false).cut, 0);
    assert!(blocks > 3 && blocks == fixture.blocks());
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| {
            let cut = fixture.vacuum(true).cut;
            assert!(cut < 10, "only what is empty goes, and {cut} pages did");
        }),
        Box::new(|fixture: &TwoRowTable| (100..104).for_each(|id| fixture.insert(id, id))),
        Box::new(|fixture: &TwoRowTable| {
            fixture.read();
            fixture.delete(kept_row());
            fixture.insert(kept_row(), 1_000);
            fixture.read();
        }),
    ]);
    for id in 100..104 {
        fixture.change(id, Some(-id), None, true);
    }
    fixture.read();
    fixture.check();
    (100..104).for_each(|id| fixture.delete(id));
    // No session is in the way now.
    fixture.vacuum(true);
    fixture.check();
    fixture.read();
}

/// `tail-unyielding`: a definition begins to wait for the table while a vacuum truncates a long
/// tail. The vacuum ends with its current piece, and leaves the rest to the next vacuum.
///
/// # Panics
/// When the vacuum cuts more, or something is lost; as [`recheck`].
pub fn a_definition_waits_for_a_tail() {
    const TAIL: u32 = 9;
    /// Pages that a vacuum cuts while it holds the lock once.
    const PIECE: u32 = 2;
    /// Number of looks whether the definition waits.
    const LOOKS: u32 = 400;
    let fixture = TwoRowTable::any_key(false);
    fixture.extend(TAIL);
    // Pages when the definition was found waiting, and pages when it had the table.
    let (waited, had) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (seen, length) = (Arc::clone(&waited), Arc::clone(&had));
    fixture.play(vec![
        Box::new(TwoRowTable::clean),
        Box::new(move |fixture: &TwoRowTable| {
            let blocks = fixture.define(|| fixture.blocks());
            length.store(blocks, Ordering::Relaxed);
        }),
        Box::new(move |fixture: &TwoRowTable| {
            for _ in 0..LOOKS {
                if fixture.is_definition_waiting() {
                    seen.store(fixture.blocks(), Ordering::Relaxed);
                    return;
                }
                thread::yield_now();
            }
        }),
    ]);
    let (waited, had) = (waited.load(Ordering::Relaxed), had.load(Ordering::Relaxed));
    assert!(waited <= had + PIECE, "it waited when there were {waited} pages, and got {had}");
    fixture.clean();
    assert_eq!(fixture.blocks(), 1, "the rest goes when nobody waits");
    fixture.read();
    fixture.check();
}

/// Returns a row that [`a_tail_is_cut`] keeps.
fn kept_row() -> i32 {
    1
}

/// `map-unmixed`: a root has entries of two keys, and one version that all see.
///
/// # Panics
/// As [`recheck`].
pub fn changed_and_all_visible() {
    TwoRowTable::any_key(false).play(vec![
        Box::new(|fixture: &TwoRowTable| {
            fixture.change(0, Some(2), None, true);
            fixture.prune();
        }),
        Box::new(|fixture: &TwoRowTable| (0..2).for_each(|_| fixture.read())),
    ]);
}

/// `freed-after-one-index`: rows are updated again and again, each time with an entry in both
/// indexes, and without a vacuum.
///
/// # Panics
/// When the heap grows, or an entry leads to a line pointer that was freed; as [`recheck`].
pub fn line_pointers_come_back() {
    let fixture = TwoRowTable::same_page_for_ever();
    fixture.churn(CHURN);
    let blocks = fixture.table.blocks().expect("blocks");
    fixture.churn(2 * CHURN);
    assert_eq!(fixture.table.blocks().expect("blocks"), blocks, "the heap keeps its size");
    fixture.play(vec![Box::new(TwoRowTable::read)]);
}

/// `filled-forgotten`: insertions of several pages are rolled back again and again, and no vacuum
/// runs.
///
/// # Panics
/// When the heap grows; as [`recheck`].
pub fn rolled_back_insertions_take_no_room() {
    /// Ids of rows that fill several pages.
    const MANY: Range<i32> = 2..1_000;
    let fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    let rounds = |count: u32| {
        (0..count).for_each(|_| fixture.insert_and_roll_back(MANY));
        fixture.blocks()
    };
    let early = rounds(3);
    assert!(early > 3, "each round fills pages");
    // If the free space of these pages is not reported, each round takes new ones.
    let late = rounds(9);
    assert!(late < 2 * early, "the heap grew from {early} blocks to {late}");
    fixture.check();
}

/// `unprunable-for-ever`: a transaction finds a full page from which nothing goes, again and again.
/// Meanwhile another transaction has deleted rows of that page, and commits.
///
/// # Panics
/// When the next row leaves the page all the same; as [`recheck`].
pub fn a_commit_makes_room_on_a_full_page() {
    /// Ids of rows that fill the first page.
    const MANY: Range<i32> = 2..400;
    /// Ids of rows of that page that go: together they have room for another version.
    const GONE: Range<i32> = 2..12;
    /// Ids of rows of that page that are updated before the commit.
    const EARLY: Range<i32> = 20..24;
    let fixture = TwoRowTable::any_key(false);
    MANY.for_each(|id| fixture.insert(id, id));
    assert!(fixture.ids_on(0).contains(&EARLY.end), "the rows are on the first page");
    transaction(&Arc::clone(&fixture.engine), |own| {
        transaction(&fixture.engine, |other| {
            GONE.for_each(|id| fixture.delete_in(other, id));
            for id in EARLY {
                let root = fixture.update_in(own, id);
                assert_ne!(root.block.0, 0, "row {id} finds no room on its page");
            }
            true
        });
        let root = fixture.update_in(own, EARLY.end);
        assert_eq!(root.block.0, 0, "the deleted rows make room");
        true
    });
    fixture.play(vec![Box::new(TwoRowTable::read)]);
}

/// `freed-beside-a-cleaner`: the same, while a cleaner remembers the line pointers that were DEAD
/// when it came.
///
/// # Panics
/// As [`line_pointers_come_back`].
pub fn a_cleaner_beside_updates() {
    // The time that the cleaner was away decides which rows have the line pointers it remembers.
    [2, 4].into_iter().for_each(|times| a_cleaner_comes_back_after(times * CHURN));
}

fn a_cleaner_comes_back_after(updates: i32) {
    let fixture = TwoRowTable::same_page_for_ever();
    fixture.churn(CHURN);
    let heap = fixture.table.heap();
    let paused = heap.pause_freeing();
    let horizon = fixture.engine.transactions().horizon();
    let mut roots = VacuumRoots::default();
    for block in 0..fixture.table.blocks().expect("blocks") {
        heap.vacuum_page(block, &horizon, Xid::INVALID, true, &mut roots).expect("a page");
    }
    fixture.churn(updates);
    for index in [0, ON_A] {
        let mut decide = |entry: niwaki_nbtree::BatchEntry<'_>| match roots.dead.contains(entry.tid)
        {
            true => EntryDecision::Delete,
            false => EntryDecision::Keep,
        };
        fixture.table.index(index).vacuum(&mut decide).expect("a pass");
    }
    for tid in roots.dead.iter() {
        heap.free_dead(&paused, tid.block.0, &[tid.offset.0], &horizon).expect("a page");
    }
    drop(paused);
    fixture.churn(CHURN);
    fixture.play(vec![Box::new(TwoRowTable::read)]);
}

/// `freed-twice`: a row comes and goes, each time with another line pointer. Two parties know the
/// old line pointers: the gardener, and the indexes where their entries were in the way. No party
/// knows the line pointers of the rows removed after that, when a pass sets the page all-visible.
///
/// # Panics
/// As [`recheck`].
pub fn line_pointers_are_told_of_twice() {
    /// Number of entries in the way: enough that one insertion removes them, and not a later one.
    const TURNS: i32 = 20;
    /// Ids of rows that are deleted afterwards.
    const GONE: Range<i32> = 3..6;
    let mut fixture = TwoRowTable::new(HeapOnlyUpdates::AnyKey);
    // The index has no payload, which would make the changed root mixed.
    fixture.index_on_a_with(true, Vec::new());
    // Entries of rows whose end may be lost with the log are removed; other entries are marked.
    fixture.durability = Durability::Async;
    GONE.for_each(|id| fixture.insert(id, id));
    for _ in 0..TURNS {
        fixture.insert(2, 2);
        fixture.delete(2);
    }
    fixture.prune();
    fixture.play(vec![
        Box::new(|fixture: &TwoRowTable| {
            // The next writer cleans up the entries of the pruned rows.
            fixture.change(1, None, Some(2), true);
            GONE.for_each(|id| fixture.delete(id));
            fixture.change_while(1, None, Some(3), || {
                fixture.prune();
                true
            });
            fixture.rounds(1);
        }),
        Box::new(|fixture: &TwoRowTable| fixture.rounds(1)),
        Box::new(TwoRowTable::read),
    ]);
}

/// Plays on a fixture with a plain index, and on one with a unique index.
fn for_both(play: impl FnOnce(TwoRowTable)) {
    play(TwoRowTable::any_key(seed().is_multiple_of(2)));
}
