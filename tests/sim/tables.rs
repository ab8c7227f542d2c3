//! Tables and transactions under the deterministic scheduler.
//!
//! The actions are in `niwaki_testkit::transfers`, `key_share_locks`, `upserts` and `scans`.

use niwaki_testkit::schedules::{schedules, simulate};
use niwaki_testkit::{
    interleavings, key_share_locks, scans, snapshot_interleavings, transfers, upserts,
};

#[test]
fn transfers_neither_make_nor_lose_money() {
    simulate(schedules(60), transfers::run);
}

#[test]
fn acknowledged_transfers_survive_a_crash() {
    simulate(schedules(60), transfers::run_and_crash);
}

#[test]
fn a_snapshot_gives_one_answer() {
    simulate(schedules(400), transfers::contend);
}

#[test]
fn a_shared_row_stays_while_others_move_it() {
    simulate(schedules(200), key_share_locks::run);
}

#[test]
fn rows_that_give_way_are_inserted_once_and_counted_once() {
    simulate(schedules(100), upserts::counters);
    simulate(schedules(300), upserts::key_moves);
    simulate(schedules(300), upserts::two_arbiters);
}

#[test]
fn readers_that_prune_give_each_snapshot_one_answer() {
    simulate(schedules(60), transfers::prune_by_reading);
}

#[test]
fn every_path_gives_what_the_snapshot_sees() {
    simulate(schedules(60), scans::run);
    simulate(schedules(60), scans::run_any_key);
}

#[test]
fn what_is_over_may_come_back() {
    simulate(schedules(300), interleavings::over_and_back);
}

#[test]
fn the_stories_of_the_model_end_well() {
    simulate(1, interleavings::line_pointers_come_back);
    simulate(1, interleavings::rolled_back_insertions_take_no_room);
    simulate(1, interleavings::a_cleaner_beside_updates);
    simulate(schedules(60), interleavings::line_pointers_are_told_of_twice);
    simulate(schedules(60), interleavings::recheck);
    simulate(schedules(300), interleavings::unmix_counter);
    simulate(schedules(20), interleavings::cleaned_payload);
    simulate(schedules(300), interleavings::a_key_behind_the_cleaner);
    simulate(schedules(300), interleavings::a_key_back_before_the_gardener);
    simulate(schedules(300), interleavings::a_root_settles);
    simulate(schedules(300), interleavings::a_root_is_about_to_settle);
    simulate(schedules(300), interleavings::a_row_goes);
    simulate(schedules(300), interleavings::a_row_goes_twice);
    simulate(schedules(300), interleavings::an_index_comes_beside_a_pass);
    simulate(schedules(300), interleavings::there_and_back);
    simulate(schedules(300), interleavings::deleted_and_all_visible);
    simulate(schedules(300), interleavings::all_visible_beside_readers);
    simulate(schedules(60), interleavings::changed_and_all_visible);
    simulate(schedules(300), interleavings::rounds_beside_writers);
    simulate(schedules(60), interleavings::a_tail_is_cut);
    simulate(schedules(300), interleavings::a_definition_waits_for_a_tail);
    simulate(schedules(60), interleavings::aborted);
    simulate(schedules(60), interleavings::payload_changes);
    simulate(schedules(100), interleavings::key_of_a_rollback);
    simulate(schedules(100), interleavings::key_taken_meanwhile);
}

#[test]
fn old_snapshots_and_followers_keep_what_they_need() {
    simulate(schedules(100), snapshot_interleavings::changed_beside_an_old_reader);
    simulate(schedules(100), snapshot_interleavings::changed_and_pruned);
    simulate(schedules(100), snapshot_interleavings::follower_beside_pruning);
    simulate(schedules(100), snapshot_interleavings::follower_that_waits);
    simulate(schedules(100), snapshot_interleavings::moved_and_changed);
    simulate(schedules(60), snapshot_interleavings::moved_beside_a_report);
    simulate(schedules(200), snapshot_interleavings::moved_and_deleted);
}
