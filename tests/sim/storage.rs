//! The storage layer under the deterministic scheduler.
//!
//! Threads commit to shared pages, beside a checkpointer. Then comes a crash at some moment, which
//! no acknowledged commit may notice.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use niwaki_env::Env;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{CrashOptions, FaultyVfs, MemoryVfs};
use niwaki_storage::CheckpointKind;
use niwaki_testkit::model::Rows;
use niwaki_testkit::pages::Pages;
use niwaki_testkit::schedules::{schedules, seed, simulate};

const WRITERS: i64 = 3;
const COMMITS: i64 = 4;

fn open(env: Env) -> Pages {
    Pages::open(env, true).expect("the storage opens")
}

/// Returns the rows of a writer's commit. Each commit counts up on the writer's own keys, two on
/// every page of two.
fn rows_of(writer: i64, value: i64) -> BTreeMap<i64, Option<i64>> {
    [writer * 10, writer * 10 + 1, writer * 10 + 100].map(|key| (key, Some(value))).into()
}

/// Returns the value that a writer's keys agree on; 0 for none.
fn value_of(rows: &Rows, writer: i64) -> i64 {
    let values: Vec<_> = rows_of(writer, 0).keys().map(|key| rows.get(key).copied()).collect();
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "writer {writer}: {values:?}");
    values[0].unwrap_or(0)
}

#[test]
fn concurrent_commits_survive_a_crash() {
    simulate(schedules(100), || {
        let seed = seed();
        let rng = SeededRng::new(seed);
        let disk = FaultyVfs::new();
        let pages = open(Env::simulated(Arc::new(disk.clone()), seed));
        disk.record();
        let base = disk.changes();
        // Writer, value, and the numbers of disk changes when the commit began and when it was
        // acknowledged.
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let (pages, disk, log) = (pages.clone(), disk.clone(), Arc::clone(&log));
            threads.push(thread::spawn(move || {
                for value in 1..=COMMITS {
                    let began = disk.changes() - base;
                    let number = u32::try_from(writer * 100 + value).unwrap();
                    pages.commit(&rows_of(writer, value), number).expect("the commit");
                    log.lock().unwrap().push((writer, value, began, disk.changes() - base));
                }
            }));
        }
        let checkpointer = pages.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                checkpointer.storage().checkpoint(CheckpointKind::Requested, &[]).unwrap();
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
        pages.check().expect("the pages are sound");
        for writer in 0..WRITERS {
            assert_eq!(value_of(&pages.rows().unwrap(), writer), COMMITS);
        }
        drop(pages);

        let log = log.lock().unwrap().clone();
        let history = disk.history().expect("recording was on");
        let moment = rng.below(history.len() as u64 + 1);
        let mut replay = history.replay();
        while (replay.done() as u64) < moment && replay.step().is_some() {}
        let options =
            CrashOptions { images_max: 4, seed: rng.next_u64(), ..CrashOptions::default() };
        for image in replay.images(&options) {
            let verified = catch_unwind(AssertUnwindSafe(|| verify(&image.vfs, &log, moment)));
            if let Err(payload) = verified {
                eprintln!("seed {seed}, moment {moment}, survivors: {}", image.survivors);
                eprintln!("{}", replay.recent(40).join("\n"));
                std::panic::resume_unwind(payload);
            }
        }
    });
}

fn verify(files: &MemoryVfs, log: &[(i64, i64, u64, u64)], moment: u64) {
    let pages = open(Env::simulated(Arc::new(files.fork()), 1));
    let rows = pages.rows().expect("the pages are read");
    for writer in 0..WRITERS {
        let found = value_of(&rows, writer);
        let mine = || log.iter().filter(move |(of, ..)| *of == writer);
        let least = mine().filter(|(.., end)| *end <= moment).map(|entry| entry.1).max();
        let most = mine().filter(|(_, _, from, _)| *from <= moment).map(|entry| entry.1).max();
        let allowed = least.unwrap_or(0)..=most.unwrap_or(0);
        assert!(allowed.contains(&found), "writer {writer}: {found} not in {allowed:?}");
    }
    pages.check().expect("the pages are sound");
}
