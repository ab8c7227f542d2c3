//! Crash images of tables and transactions, without SQL.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_testkit::crash::{CrashPlan, CrashReport, follow, run};
use niwaki_testkit::model::Model;
use niwaki_testkit::reports::TablesBesideReport;
use niwaki_testkit::tables::{AnyKeyTables, TestedTables};
use niwaki_testkit::tested_database::TestedDatabase;
use niwaki_testkit::vacuum_truncation;
use niwaki_testkit::workload::{Mix, Workload};

fn plan(seed: u64) -> CrashPlan {
    CrashPlan {
        suite: "tables",
        seed,
        steps: 150,
        mix: Mix {
            keys: [4, 24, 200][usize::try_from(seed % 3).unwrap()],
            sessions: [1, 3][usize::try_from(seed % 2).unwrap()],
            ..Mix::default()
        },
        stale_bytes: seed % 2 == 1,
        full_page_writes: seed % 4 != 2,
        images_per_moment: 4,
        second_crash_every: 200,
        images_per_recovery_moment: 2,
        ..CrashPlan::default()
    }
}

fn survives<S: TestedDatabase>() {
    let seed = std::env::var("NIWAKI_CRASH_SEED").map(|text| text.parse().expect("a seed"));
    let seeds = seed.map_or(0..12, |seed| seed..seed + 1);
    let mut total = CrashReport::default();
    for seed in seeds {
        match run::<S>(&plan(seed)) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    eprintln!("{total:?}");
    assert!(total.images > 100, "{total:?}");
}

#[test]
fn tables_survive_every_crash() {
    survives::<TestedTables>();
}

/// The workload of the crash images has vacuums that cut the end of the heaps, which grow again.
#[test]
fn heaps_are_cut_and_grow_again() {
    let mut cut = 0;
    for seed in 0..12 {
        let CrashPlan { mix, steps, full_page_writes, .. } = plan(seed);
        let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
        let mut tested = TestedTables::open(env, full_page_writes).unwrap();
        let (mut model, mut workload) = (Model::new(), Workload::new(mix, seed));
        follow(&mut tested, &mut model, &mut workload, steps, |_| {}).unwrap();
        cut += tested.database().pages_cut();
        tested.check().unwrap();
    }
    assert!(cut > 5, "only {cut} pages were cut");
}

#[test]
fn a_tail_that_is_cut_survives_every_crash() {
    vacuum_truncation::every_crash().unwrap();
}

/// With an open old snapshot, versions are removed from the middle of chains.
#[test]
fn tables_beside_a_report_survive_every_crash() {
    survives::<TablesBesideReport>();
}

#[test]
fn chains_of_several_keys_survive_every_crash() {
    survives::<AnyKeyTables>();
}
