//! The suites find bugs: each bug planted in the engine makes one of them fail.
//!
//! Storage and txn have more planted bugs, which their own tests find.
//!
//! One build holds all bugs (`niwaki_env::seeded_bug!`). Planting is a global switch, so each bug
//! has its own process. The suites run under the deterministic scheduler, some with one thread
//! only. Run with `--features shuttle`; `NIWAKI_BUG` names one suite or bug.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use niwaki_env::Env;
use niwaki_env::bugs::{plant, visits};
use niwaki_env::memory::{self, Held};
use niwaki_env::vfs::MemoryVfs;
use niwaki_table::HeapOnlyUpdates;
use niwaki_testkit::chains;
use niwaki_testkit::crash::{self, CrashPlan, follow};
use niwaki_testkit::model::Model;
use niwaki_testkit::pages::PageStore;
use niwaki_testkit::schedules::{self, simulate};
use niwaki_testkit::tables::TestedTables;
use niwaki_testkit::tested_database::TestedDatabase;
use niwaki_testkit::workload::{Mix, Workload};
use niwaki_testkit::{
    databases, interleavings, key_share_locks, known_answers, ledger, orphan_files,
    parallel_queries, queue_workers, restarts, scans, sequences, snapshot_interleavings, transfers,
    upserts, vacuum_truncation,
};
use niwaki_types::growing::Charge;
use niwaki_types::{TypeError, work};

/// Seeds tried before a bug counts as not found.
const SEEDS: u64 = 6;
/// Schedules tried before a bug counts as not found.
const SCHEDULES: usize = 300;

/// Schedules of the shortest scenario tried before a bug counts as not found.
const CONTENTIONS: usize = 12_000;

/// Schedules of the model's stories tried before a bug counts as not found.
const STORIES: usize = 6_000;

/// Schedules of the ledger, the longest ones, tried before a bug counts as not found.
const LEDGERS: usize = 300;

type Suite = fn() -> Result<(), String>;

/// Bug, its effect, and the suite that must find it.
const BUGS: [(&str, &str, Suite); 96] = [
    ("acknowledged_before_sync", "a commit is acknowledged before the log is synced", pages),
    ("missing_image", "no image of a page at its first change after a checkpoint", pages),
    ("page_before_log", "a page is written before the log that describes it", pages),
    ("no_folder_sync", "a new log segment's name is not synced", pages),
    ("late_redo", "a checkpoint's redo position is taken after the pages were written", together),
    ("removable_ignores_snapshots", "pruning removes what an open snapshot sees (G1)", sessions),
    ("split_forgets_high_key", "the right half of a split has no high key", sessions),
    ("shares-one-root", "the key of a row that moves is locked at its old root alone", sharing),
    ("values-kept-by-update", "a large value goes although an update keeps it", sessions),
    ("locks_stay_behind", "a row that moves leaves its shared locks behind", sharing),
    ("kill-unchanged", "a scan marks entries of a leaf that has changed", paths),
    ("snapshot_without_pending", "a snapshot is taken without saying so first", together),
    ("removable_without_published", "what ended after the slots were read goes too", together),
    ("publish_before_marking", "a commit is published before its transaction is marked", together),
    ("redo_twice", "recovery applies a record to a page that has it already", pages),
    ("no-duplicates", "a second entry of one key and root is let in", any_keys),
    ("revive", "an entry that is there already keeps its mark", any_keys),
    ("predicate-mixes", "a predicate that turns does not make the root mixed", any_keys),
    ("unique-own-root", "a row's own versions are in its way", any_keys),
    ("payload-mixes", "a payload that changes does not make the root mixed", payload_changes),
    ("mixed-first", "the root becomes mixed after the entries are there", there_and_back),
    ("suppression-bumps", "a suppressed duplicate leaves the leaf's version", there_and_back),
    ("abort-keeps-mixed", "pruning an aborted version clears mixed", aborted),
    ("unique-all-versions", "a unique check looks at the newest version", key_of_a_rollback),
    ("unique-before-duplicate", "a duplicate is not checked", key_taken_meanwhile),
    ("conflict-recheck", "a row is updated for a key that it had", key_moves),
    ("conflict-take-back", "a row that gave way stays", two_arbiters),
    ("recheck", "an entry of another key is believed", recheck),
    ("payload-rewritten", "a cleaned root's entry keeps an older payload", cleaned_payload),
    (
        "one-hold",
        "an entry goes as it was judged before its leaf was latched",
        key_before_the_gardener,
    ),
    (
        "arrivals-counted",
        "a key comes back to a root uncounted, and its entry goes without a look",
        key_before_the_gardener,
    ),
    ("complete-record", "a root is cleared although a removed version was lost", root_settles),
    (
        "seen-early",
        "a removed version counts as seen to before its entries are gone",
        root_about_to_settle,
    ),
    (
        "unknown-seen",
        "an entry counts as seen to although nobody knows whether it is stale",
        computed_key_meanwhile,
    ),
    (
        "tended-while-dropped",
        "the gardener deletes entries of an index whose file is dropped",
        index_dropped_beside_gardener,
    ),
    ("own-record", "who is late counts for a line pointer's next row", row_goes_twice),
    ("observer-epoch", "who knew other indexes is told after they changed", index_beside_pass),
    ("cleaning", "a key that came behind the cleaner is believed", key_behind_the_cleaner),
    ("unmix-counter", "a root that was cleared since the leaf was read is believed", unmix_counter),
    (
        "map-under-latch",
        "the visibility map is asked when the leaf's latch is gone",
        deleted_and_all_visible,
    ),
    ("map-horizon", "a page is all-visible once its rows are committed", all_visible),
    ("map-cleared", "a change leaves the page's bits", all_visible),
    ("map-unmixed", "a page with a mixed root is all-visible", changed_and_all_visible),
    ("freed-twice", "a line pointer that two know to be free hides another", told_of_twice),
    ("tail-believed", "a heap's tail is not looked at again under the lock", tail),
    (
        "tail-unyielding",
        "a vacuum cuts on while a definition waits for it",
        definition_waits_for_tail,
    ),
    ("tail-map-stays", "the map says of pages that are gone what it said", tail),
    ("cut_before_log", "a file is cut before its record is flushed", tail_crashes),
    ("freed-after-one-index", "one index without an entry is enough", line_pointers),
    (
        "filled-forgotten",
        "pages that a rolled back transaction filled are not told of",
        rolled_back_insertions,
    ),
    (
        "unprunable-for-ever",
        "a full page from which nothing goes stays one after a commit",
        room_after_commit,
    ),
    ("freed-beside-a-cleaner", "nobody keeps line pointers for a cleaner", beside_a_cleaner),
    ("relink-xmax", "a version takes over a link without the xmax", old_reader),
    ("one-latch", "a follower lets go of the page between two versions", follower),
    ("stub", "a moved-in root becomes a redirect while it may be followed", moved_and_changed),
    ("stubs-for-followers", "stubs wait for reports too", moved_beside_a_report),
    ("hop-check", "a follower takes whatever is at the link", moved_and_deleted),
    ("judged_once", "values of an old version go over the newest one", claims),
    ("sequence-unlocked", "a sequence goes while its numbers are not committed", sequences),
    ("sequence-of-before", "who waited for a sequence draws from its old file", sequences),
    ("blocks_taken_twice", "two threads of a statement take the same blocks", crews),
    ("threads_unawaited", "a statement ends while a thread has rows", crews),
    ("error_of_a_thread", "a thread's error is its own", crews),
    ("work_unasked", "nobody asks whether long work goes on", asked_work),
    ("value_uncharged", "a value is built however long it becomes", charged_values),
    ("memory_unasked", "a session takes memory that the server does not have", accounted_memory),
    ("let-in", "a session comes into a database that is about to go", databases),
    ("over-any-version", "a leaf that has changed is taken to begin with what was over", over),
    ("over-any-snapshot", "what is over for a newer snapshot is left out for an older one", over),
    ("stale_segment", "recovery takes records of a segment's earlier use", pages),
    ("redo_trusts_cache", "recovery leaves pages that memory has as they are", restarting),
    ("ignored_sync_failure", "a failed sync of the log is passed over", restarting),
    ("ignored_file_sync", "a failed sync of a relation file is passed over", restarting),
    ("ignored_log_write", "a failed write of the log is passed over", ending),
    ("refused_is_committed", "what a statement did before it ran out of memory stays", refused),
    ("nobodys_files_are_removed", "files that no relation has are removed", strays_stay),
    ("catalog_is_filled_again", "an empty catalog is that of a new directory", no_new_catalog),
    ("control_overwritten", "the slot of the control file that counts is overwritten", control),
    ("control_unsynced", "the control file is not synced before the log goes", control),
    ("older_control_counts", "the older slot of the control file counts", control),
    ("definition_before_commit", "a definition is seen before its commit", definitions),
    ("rolled_back_definition_stays", "a session keeps what it rolled back", definitions),
    ("savepoint_keeps_definition", "ROLLBACK TO leaves the definition that was seen", definitions),
    ("definition_unannounced", "plans are kept over a change of what they read", definitions),
    ("dependents_forgotten", "DROP does not ask who needs it", definitions),
    ("default_for_old_rows", "a new default is that of older rows too", definitions),
    ("savepoint_rows_stay", "ROLLBACK TO leaves the rows", savepoints),
    ("released_rows_stay", "ROLLBACK TO leaves what was released within", savepoints),
    ("savepoint_locks_stay", "ROLLBACK TO leaves the locks", savepoints),
    ("released_locks_go", "locks of a released savepoint go with the next one", savepoints),
    ("copied_rows_stay", "rows in front of a failing line stay", copies),
    ("unended_line_lost", "COPY leaves out a last line without its newline", copies),
    ("late_cancel_hits_next", "a cancel request is kept for the next statement", late_cancel),
    ("waits_uncancelled", "who waits for a row does not hear of a cancel", cancelled_wait),
    ("sequence_not_ahead", "a sequence logs the number that it gives, not those to come", numbers),
    ("setval_unlogged", "setval is not logged", numbers),
];

/// Runs in a single simulated thread, and hands the result out.
fn alone(body: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Result<(), String> {
    let result = Arc::new(Mutex::new(Ok(())));
    let inside = Arc::clone(&result);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        schedules::alone(move || *inside.lock().unwrap() = body());
    }));
    match ran {
        Ok(()) => result.lock().unwrap().clone(),
        Err(payload) => Err(crash::describe(&*payload)),
    }
}

/// Builds a text that doubles until it is too long.
fn charged_values() -> Result<(), String> {
    alone(|| {
        let mut charge = Charge::of(1);
        let grown = (0..40).find_map(|power| charge.add(1 << power).err());
        grown.map(drop).ok_or_else(|| "the value has a terabyte".to_owned())
    })
}

/// Lets a session that holds much memory ask for more than all may have.
fn accounted_memory() -> Result<(), String> {
    let before = memory::used().1;
    memory::set_limit(32 << 20);
    let held = Held::own(8 << 20);
    let asked = memory::room(64 << 20);
    drop(held);
    memory::set_limit(before);
    match asked {
        Err(full) if full.wanted == 64 << 20 => Ok(()),
        other => Err(format!("64 MB of 32 MB were answered with {other:?}")),
    }
}

/// Runs work that its session wants ended.
fn asked_work() -> Result<(), String> {
    alone(|| {
        let cancelled = Arc::new(|| Err(TypeError::new("57014", "cancelled")));
        let _asking = work::asking(Some(cancelled));
        let done = (0..4).try_for_each(|_| work::tick(work::UNITS));
        done.map_or(Ok(()), |()| Err("the work went on".to_owned()))
    })
}

/// Opens crash images of the storage layer.
fn pages() -> Result<(), String> {
    for seed in 0..SEEDS {
        let keys = [60, 12, 300][usize::try_from(seed % 3).unwrap()];
        // Without full-page images the log is made of many small records. A long run of them comes
        // back to segments that hold the records of their earlier use.
        let full_page_writes = seed % 3 != 1;
        let plan = CrashPlan {
            seed,
            steps: if full_page_writes { 250 } else { 700 },
            full_page_writes,
            mix: Mix { keys, ..Mix::default() },
            // The first few images of a moment lose or keep whole files; torn writes come after
            // them.
            moments_every: if full_page_writes { 3 } else { 5 },
            images_per_moment: if full_page_writes { 12 } else { 1 },
            second_crash_every: 0,
            from_nothing: seed % 2 == 1,
            ..CrashPlan::default()
        };
        alone(move || match crash::run::<PageStore>(&plan) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        })?;
    }
    Ok(())
}

/// Lets syncs fail, restarts on the same machine, and takes the power away.
fn restarting() -> Result<(), String> {
    alone(restarts::every_failed_sync)
}

/// Stops writes of the control file in the middle.
fn control() -> Result<(), String> {
    alone(restarts::every_torn_control)
}

/// Checks definitions, as their own session and others see them.
fn definitions() -> Result<(), String> {
    alone(known_answers::definitions)
}

fn savepoints() -> Result<(), String> {
    alone(known_answers::savepoints)
}

fn copies() -> Result<(), String> {
    alone(known_answers::copies)
}

fn late_cancel() -> Result<(), String> {
    alone(known_answers::late_cancel)
}

/// Sends a cancel request to a session that waits.
fn cancelled_wait() -> Result<(), String> {
    story(known_answers::cancelled_wait, SCHEDULES)
}

/// Draws from sequences behind a kill.
fn numbers() -> Result<(), String> {
    alone(known_answers::numbers_after_a_kill)
}

/// Puts files there that no relation has.
fn strays_stay() -> Result<(), String> {
    alone(orphan_files::nothing_goes_unsaid)
}

/// Opens a catalog of zeros.
fn no_new_catalog() -> Result<(), String> {
    alone(orphan_files::no_catalog_is_filled_again)
}

/// Opens crash images of tables.
fn tables() -> Result<(), String> {
    for seed in 0..SEEDS {
        let plan = CrashPlan {
            seed,
            steps: 120,
            full_page_writes: seed % 3 != 1,
            images_per_moment: 3,
            second_crash_every: 40,
            images_per_recovery_moment: 1,
            ..CrashPlan::default()
        };
        alone(move || match crash::run::<TestedTables>(&plan) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        })?;
    }
    Ok(())
}

/// Shares rows that other sessions move and delete.
fn sharing() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, key_share_locks::run)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Lets workers lock a row and count it in one statement.
fn claims() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, queue_workers::run)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Draws numbers beside a session that drops and restarts their sequence.
fn sequences() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, sequences::run)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Runs queues, index builds and readers until the process ends, and behind its restart.
fn ending() -> Result<(), String> {
    story(ledger::run_until_the_process_ends, LEDGERS)
}

/// Runs the ledger while requests for memory are refused.
fn refused() -> Result<(), String> {
    story(ledger::run_short_of_memory, LEDGERS)
}

/// Runs parallel statements.
fn crews() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, parallel_queries::run)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Runs databases that come and go.
fn databases() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, databases::come_and_go)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Uses expired prefixes: keys that only an old snapshot needs, and that come back.
fn over() -> Result<(), String> {
    story(interleavings::over_and_back, STORIES)
}

/// Compares interleaved sessions with the model.
fn sessions() -> Result<(), String> {
    for seed in 0..SEEDS {
        alone(move || {
            let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
            let mut tested = TestedTables::open(env, true)?;
            let mut model = Model::new();
            let mix = Mix { keys: 16, sessions: 4, ..Mix::default() };
            let mut workload = Workload::new(mix, seed);
            follow(&mut tested, &mut model, &mut workload, 400, |_| {})?;
            tested.rows().map(drop)?;
            tested.check()
        })?;
    }
    Ok(())
}

/// Runs concurrent transfers in many schedules, with and without a crash.
fn together() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        simulate(CONTENTIONS, transfers::contend);
        simulate(SCHEDULES, transfers::run);
        simulate(SCHEDULES, transfers::run_and_crash);
    }));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Runs readers by every path beside writers.
fn paths() -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(SCHEDULES, scans::run)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Runs a story of the protocol's model.
fn story(story: fn(), schedules: usize) -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| simulate(schedules, story)));
    ran.map_err(|payload| crash::describe(&*payload))
}

/// Runs chains of any keys in random schemas.
fn any_keys() -> Result<(), String> {
    for seed in 0..2 * SEEDS {
        let heap_only = HeapOnlyUpdates::AnyKey;
        let plan = chains::Plan { seed, steps: 200, heap_only, all_mixed: false };
        alone(move || {
            chains::run(plan);
            Ok(())
        })?;
    }
    Ok(())
}

fn there_and_back() -> Result<(), String> {
    story(interleavings::there_and_back, STORIES)
}

fn aborted() -> Result<(), String> {
    story(interleavings::aborted, SCHEDULES)
}

fn payload_changes() -> Result<(), String> {
    story(interleavings::payload_changes, SCHEDULES)
}

fn key_of_a_rollback() -> Result<(), String> {
    story(interleavings::key_of_a_rollback, SCHEDULES)
}

fn key_taken_meanwhile() -> Result<(), String> {
    story(interleavings::key_taken_meanwhile, SCHEDULES)
}

fn key_moves() -> Result<(), String> {
    story(upserts::key_moves, STORIES)
}

fn two_arbiters() -> Result<(), String> {
    story(upserts::two_arbiters, STORIES)
}

fn recheck() -> Result<(), String> {
    story(interleavings::recheck, SCHEDULES)
}

fn unmix_counter() -> Result<(), String> {
    story(interleavings::unmix_counter, STORIES)
}

fn cleaned_payload() -> Result<(), String> {
    story(interleavings::cleaned_payload, SCHEDULES)
}

fn key_behind_the_cleaner() -> Result<(), String> {
    story(interleavings::a_key_behind_the_cleaner, STORIES)
}

fn key_before_the_gardener() -> Result<(), String> {
    story(interleavings::a_key_back_before_the_gardener, STORIES)
}

fn root_settles() -> Result<(), String> {
    story(interleavings::a_root_settles, STORIES)
}

fn row_goes_twice() -> Result<(), String> {
    story(interleavings::a_row_goes_twice, STORIES)
}

fn index_beside_pass() -> Result<(), String> {
    story(interleavings::an_index_comes_beside_a_pass, STORIES)
}

fn computed_key_meanwhile() -> Result<(), String> {
    story(interleavings::a_computed_key_comes_meanwhile, STORIES)
}

fn index_dropped_beside_gardener() -> Result<(), String> {
    story(interleavings::an_index_is_dropped_beside_the_gardener, STORIES)
}

fn root_about_to_settle() -> Result<(), String> {
    story(interleavings::a_root_is_about_to_settle, STORIES)
}

fn old_reader() -> Result<(), String> {
    story(snapshot_interleavings::changed_beside_an_old_reader, SCHEDULES)
}

fn follower() -> Result<(), String> {
    story(snapshot_interleavings::follower_beside_pruning, STORIES)
}

fn moved_and_changed() -> Result<(), String> {
    story(snapshot_interleavings::moved_and_changed, SCHEDULES)
}

fn moved_beside_a_report() -> Result<(), String> {
    story(snapshot_interleavings::moved_beside_a_report, SCHEDULES)
}

fn moved_and_deleted() -> Result<(), String> {
    story(snapshot_interleavings::moved_and_deleted, STORIES)
}

fn deleted_and_all_visible() -> Result<(), String> {
    story(interleavings::deleted_and_all_visible, STORIES)
}

fn all_visible() -> Result<(), String> {
    story(interleavings::all_visible_beside_readers, STORIES)
}

fn changed_and_all_visible() -> Result<(), String> {
    story(interleavings::changed_and_all_visible, SCHEDULES)
}

fn tail_crashes() -> Result<(), String> {
    alone(vacuum_truncation::every_crash)
}

fn tail() -> Result<(), String> {
    story(interleavings::a_tail_is_cut, STORIES)
}

fn definition_waits_for_tail() -> Result<(), String> {
    story(interleavings::a_definition_waits_for_a_tail, STORIES)
}

fn line_pointers() -> Result<(), String> {
    story(interleavings::line_pointers_come_back, 1)
}

fn rolled_back_insertions() -> Result<(), String> {
    story(interleavings::rolled_back_insertions_take_no_room, 1)
}

fn room_after_commit() -> Result<(), String> {
    story(interleavings::a_commit_makes_room_on_a_full_page, 1)
}

fn told_of_twice() -> Result<(), String> {
    story(interleavings::line_pointers_are_told_of_twice, SCHEDULES)
}

fn beside_a_cleaner() -> Result<(), String> {
    story(interleavings::a_cleaner_beside_updates, 1)
}

/// The suites that find bugs: without a bug each of them holds.
const SUITES: [(&str, Suite); 48] = [
    ("pages", pages),
    ("restarting", restarting),
    ("ending", ending),
    ("refused", refused),
    ("strays-stay", strays_stay),
    ("no-new-catalog", no_new_catalog),
    ("tables", tables),
    ("sessions", sessions),
    ("sharing", sharing),
    ("claims", claims),
    ("sequences", sequences),
    ("crews", crews),
    ("asked-work", asked_work),
    ("charged-values", charged_values),
    ("accounted-memory", accounted_memory),
    ("databases", databases),
    ("over", over),
    ("together", together),
    ("paths", paths),
    ("any-keys", any_keys),
    ("there-and-back", there_and_back),
    ("aborted", aborted),
    ("payload-changes", payload_changes),
    ("key-of-a-rollback", key_of_a_rollback),
    ("key-taken-meanwhile", key_taken_meanwhile),
    ("key-moves", key_moves),
    ("two-arbiters", two_arbiters),
    ("recheck", recheck),
    ("unmix-counter", unmix_counter),
    ("cleaned-payload", cleaned_payload),
    ("key-behind-the-cleaner", key_behind_the_cleaner),
    ("key-before-the-gardener", key_before_the_gardener),
    ("root-settles", root_settles),
    ("root-about-to-settle", root_about_to_settle),
    ("computed-key-meanwhile", computed_key_meanwhile),
    ("index-dropped-beside-gardener", index_dropped_beside_gardener),
    ("row-goes-twice", row_goes_twice),
    ("rolled-back-insertions", rolled_back_insertions),
    ("room-after-commit", room_after_commit),
    ("tail", tail),
    ("tail-crashes", tail_crashes),
    ("control", control),
    ("definitions", definitions),
    ("savepoints", savepoints),
    ("copies", copies),
    ("late-cancel", late_cancel),
    ("cancelled-wait", cancelled_wait),
    ("numbers", numbers),
];

/// The environment variable that names the one suite or bug of a run.
const ONLY: &str = "NIWAKI_BUG";
/// Prefix of a suite's name in that variable.
const SUITE: &str = "suite:";

/// Runs a suite without a bug.
fn holds(name: &str, suite: Suite) {
    plant(None);
    suite().unwrap_or_else(|error| panic!("suite {name} fails without a bug: {error}"));
}

/// Plants a bug, and requires that its suite finds it.
fn is_found(bug: &'static str, what: &str, suite: Suite) {
    plant(Some(bug));
    let outcome = suite();
    let met = visits();
    match outcome {
        // A schedule without an end says nothing about the bug's effect.
        Err(error) if met == 0 || error.contains("exceeded max_steps") => {
            panic!("{bug} ({what}) was met {met} times, but something failed: {error}");
        }
        Err(error) => {
            let first = error.lines().next().unwrap_or_default();
            eprintln!("{bug}: found after {met} visits: {first:.200}");
        }
        Ok(()) => panic!("{bug} ({what}) was met {met} times and not found"),
    }
}

/// Runs this test for one suite or bug in a new process; returns its output, and whether it held.
fn run_apart(name: &str) -> (String, bool) {
    let program = std::env::current_exe().expect("this program has a file");
    let test = ["--exact", "every_planted_bug_is_found", "--nocapture"];
    let run = Command::new(program).args(test).env(ONLY, name).output().expect("it starts");
    (String::from_utf8_lossy(&run.stderr).into_owned(), run.status.success())
}

/// Planting is for a whole process, and a run has one thread. So each bug has a process, one per
/// core.
#[test]
fn every_planted_bug_is_found() {
    if let Ok(only) = std::env::var(ONLY) {
        if let Some(name) = only.strip_prefix(SUITE) {
            let suite = SUITES.iter().find(|suite| suite.0 == name).expect("a suite has this name");
            holds(name, suite.1);
        } else {
            let bug = BUGS.iter().find(|bug| bug.0 == only).expect("a bug has this name");
            is_found(bug.0, bug.1, bug.2);
        }
        return;
    }
    let suites = SUITES.iter().map(|suite| format!("{SUITE}{}", suite.0));
    let names = suites.chain(BUGS.iter().map(|bug| bug.0.to_owned()));
    let (waiting, missed) = (Mutex::new(names), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(name) = waiting.lock().unwrap().next() else { break };
                    let start = Instant::now();
                    let (output, held) = run_apart(&name);
                    let told = output.lines().find(|line| line.starts_with(&name));
                    let told = told.map_or_else(|| format!("{name} holds"), str::to_owned);
                    eprintln!("{told} ({:.1?})", start.elapsed());
                    if !held {
                        missed.lock().unwrap().push((name, output));
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    for (name, output) in &missed {
        eprintln!("{name}:\n{output}");
    }
    // Readers see only the last lines of a long log.
    let names: Vec<&String> = missed.iter().map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "these failed: {names:?}");
}
