//! Queues, index builds, vacuum, readers and crashes, all at once and from SQL: see
//! `niwaki_testkit::ledger`.
//!
//! `NIWAKI_SIM_SCHEDULES` sets the number of schedules that each test tries. `NIWAKI_BUG` plants a
//! bug first, so that the test must fail.
//!
//! A disk that says "synced" and did nothing is left out. Nothing is promised on such a disk: W2
//! rests on the truth of a sync. Its power loss may take commits, and need not leave a trace.

use std::sync::{Arc, Mutex};

use niwaki_env::Env;
use niwaki_env::bugs::plant;
use niwaki_env::sync::thread;
use niwaki_env::vfs::FaultyVfs;
use niwaki_testkit::ledger;
use niwaki_testkit::processes::Process;
use niwaki_testkit::schedules::{schedules, simulate, simulate_twice};

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

#[test]
fn a_failed_sync_and_a_power_loss_behind_the_restart_lose_nothing() {
    plant_named();
    simulate(schedules(40), ledger::run_until_the_process_ends);
}

#[test]
fn refused_questions_for_memory_lose_nothing() {
    plant_named();
    simulate(schedules(40), ledger::run_short_of_memory);
}

#[test]
fn files_lost_below_the_engine_are_told_of() {
    plant_named();
    simulate(schedules(40), ledger::run_beside_lost_files);
}

/// The schedules of a seed differed from run to run. Work was done in the order of hash tables,
/// which differed from table to table. So the seed that a failing test printed was worth little.
#[test]
fn a_seed_gives_the_same_schedules_again() {
    simulate_twice(2, ledger::run_and_note);
}

/// The simulation's own rule, which the other tests rely on.
#[test]
fn threads_of_a_process_that_ended_take_no_step() {
    simulate(60, || {
        let disk = FaultyVfs::new();
        let process = Process::on(&disk);
        let steps = Arc::new(Mutex::new(0));
        let env = Env { on_abort: process.on_abort(), ..Env::simulated(Arc::new(disk), 1) };
        let counts = Arc::clone(&steps);
        process.spawn(move || {
            // Ends with the process.
            loop {
                *counts.lock().unwrap() += 1;
                thread::yield_now();
            }
        });
        process.spawn(move || {
            thread::yield_now();
            env.abort("it is time");
        });
        let (_, reason) = process.wait().expect("the process ends");
        assert_eq!(reason, "it is time");
        let before = *steps.lock().unwrap();
        (0..20).for_each(|_| thread::yield_now());
        assert_eq!(*steps.lock().unwrap(), before);
        // A thread of the next process does take steps.
        thread::spawn(|| ()).join().expect("it ends");
    });
}
