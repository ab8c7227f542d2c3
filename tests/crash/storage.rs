//! Crash images of the storage layer alone: log, page images, checkpoints, eviction, recovery.

use niwaki_testkit::crash::{CrashPlan, CrashReport, run};
use niwaki_testkit::pages::PageStore;
use niwaki_testkit::workload::Mix;

fn plan(seed: u64) -> CrashPlan {
    CrashPlan {
        suite: "storage",
        seed,
        steps: 120,
        mix: Mix { keys: [12, 60, 300][usize::try_from(seed % 3).unwrap()], ..Mix::default() },
        from_nothing: seed.is_multiple_of(4),
        stale_bytes: seed % 2 == 1,
        full_page_writes: seed % 4 != 2,
        images_per_moment: 6,
        second_crash_every: 200,
        images_per_recovery_moment: 2,
        ..CrashPlan::default()
    }
}

#[test]
fn pages_survive_every_crash() {
    let seed = std::env::var("NIWAKI_CRASH_SEED").map(|text| text.parse().expect("a seed"));
    let seeds = seed.map_or(0..12, |seed| seed..seed + 1);
    let mut total = CrashReport::default();
    for seed in seeds {
        match run::<PageStore>(&plan(seed)) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    eprintln!("{total:?}");
    assert!(total.images > 100 && total.second_images > 0, "{total:?}");
}

/// Recovery must write again everything it relies on. A sync failed, the server ended, and was
/// started again on the same machine. The bytes that its recovery read were in the system's memory
/// only, and counted as clean. Recovery synced them "successfully" and moved the redo position on.
/// When the machine stopped, acknowledged commits were gone.
#[test]
fn what_a_failed_sync_lost_is_written_again() {
    niwaki_testkit::restarts::every_failed_sync().unwrap_or_else(|error| panic!("{error}"));
}
