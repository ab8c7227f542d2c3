//! Queues, index builds, vacuum, readers and crashes, all at once and from SQL: see
//! `niwaki_testkit::ledger`. `NIWAKI_SIM_SCHEDULES` sets how many schedules each test tries;
//! `NIWAKI_BUG` plants a bug first, so that the test must fail.

use niwaki_env::bugs::plant;
use niwaki_testkit::ledger;
use niwaki_testkit::schedules::{schedules, simulate};

/// Plants the bug that the environment names.
fn plant_named() {
    if let Ok(bug) = std::env::var("NIWAKI_BUG") {
        plant(Some(bug.leak()));
    }
}

#[test]
fn every_snapshot_sees_equal_sums() {
    plant_named();
    simulate(schedules(60), ledger::run);
}

#[test]
fn acknowledged_transactions_survive_a_crash_beside_everything() {
    plant_named();
    simulate(schedules(40), ledger::run_and_crash);
}

#[test]
fn errors_of_the_disk_lose_nothing() {
    plant_named();
    simulate(schedules(40), ledger::run_on_a_failing_disk);
}
