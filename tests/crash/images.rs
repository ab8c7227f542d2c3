//! Crashes at any moment, after which every acknowledged commit must be there.
//!
//! This holds in every state that the crash may leave the disk in, also when recovery itself is
//! interrupted.
//!
//! `NIWAKI_CRASH_IMAGES` sets the number of opened images (20,000 in CI, 400,000 in the long tier).
//! `NIWAKI_CRASH_SEED` runs one seed alone, and `NIWAKI_CRASH_THREADS` sets the number of seeds
//! that run at once.

use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use niwaki_testkit::crash::{CrashPlan, CrashReport, run};
use niwaki_testkit::sql::TestedSql;
use niwaki_testkit::workload::Mix;

const IMAGES_IN_CI: usize = 20_000;

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}

/// Returns the plan of a seed. Few keys make long chains, and many keys make index pages split.
fn plan(seed: u64) -> CrashPlan {
    let mix = Mix { keys: [4, 24, 300][usize::try_from(seed % 3).unwrap()], ..Mix::default() };
    CrashPlan {
        suite: "crash",
        seed,
        mix,
        steps: if seed % 3 == 2 { 100 } else { 40 },
        from_nothing: seed.is_multiple_of(8),
        full_page_writes: seed % 5 != 4,
        images_per_moment: if seed % 3 == 2 { 2 } else { 4 },
        second_crash_every: 150,
        images_per_recovery_moment: 1,
        ..CrashPlan::default()
    }
}

#[test]
fn acknowledged_commits_survive_every_crash() {
    if let Some(seed) = setting("NIWAKI_CRASH_SEED") {
        match run::<TestedSql>(&plan(seed)) {
            Ok(report) => eprintln!("seed {seed} passes: {report:?}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    let target: usize = setting("NIWAKI_CRASH_IMAGES").unwrap_or(IMAGES_IN_CI);
    let threads: usize = setting("NIWAKI_CRASH_THREADS").unwrap_or(2);
    let total = Mutex::new(CrashReport::default());
    let failures = Mutex::new(Vec::new());
    let next_seed = AtomicU64::new(setting("NIWAKI_CRASH_FIRST_SEED").unwrap_or(1));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next_seed.fetch_add(1, Ordering::Relaxed);
                    match run::<TestedSql>(&plan(seed)) {
                        Ok(report) => {
                            let mut total = total.lock().unwrap();
                            total.add(&report);
                            eprintln!("seed {seed}: {} of {target} images", total.images);
                            if total.images >= target {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                        Err(failure) => {
                            stop.store(true, Ordering::Relaxed);
                            failures.lock().unwrap().push(failure.to_string());
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let total = total.into_inner().unwrap();
    eprintln!("{total:?}");
    assert!(total.images >= target);
    assert!(total.second_images * 20 > total.images, "too few crashes of recovery: {total:?}");
    assert!(total.commits * 100 > total.images, "too few commits: {total:?}");
}
