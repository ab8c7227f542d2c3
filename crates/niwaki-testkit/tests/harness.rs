//! The crash suite on a store whose bugs are known.
//!
//! The suite must pass the store without a bug and find every bug.

use niwaki_testkit::buggy_store::{Bug, BuggyStore};
use niwaki_testkit::crash::{CrashPlan, CrashReport, run};

fn plan(seed: u64) -> CrashPlan {
    CrashPlan {
        seed,
        steps: 120,
        from_nothing: true,
        second_crash_every: 10,
        ..CrashPlan::default()
    }
}

fn found<const BUG: u8>() -> bool {
    (0..8).any(|seed| run::<BuggyStore<BUG>>(&plan(seed)).is_err())
}

#[test]
fn a_store_without_bugs_passes() {
    let mut total = CrashReport::default();
    for seed in 0..4 {
        match run::<BuggyStore<{ Bug::None as u8 }>>(&plan(seed)) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(total.commits > 20, "{total:?}");
    assert!(total.images > 500, "{total:?}");
    assert!(total.second_images > 100, "{total:?}");
    assert!(total.continued > 10, "{total:?}");
}

#[test]
fn every_bug_is_found() {
    assert!(found::<{ Bug::AcknowledgeBeforeSync as u8 }>(), "acknowledged before sync");
    assert!(found::<{ Bug::NoChecksum as u8 }>(), "no checksum");
    assert!(found::<{ Bug::NoFolderSync as u8 }>(), "folder not synced");
    assert!(found::<{ Bug::RenameBeforeSync as u8 }>(), "renamed before sync");
    assert!(found::<{ Bug::RecordPerWrite as u8 }>(), "a record for each write");
    assert!(found::<{ Bug::CutBeforeSave as u8 }>(), "log cut before its content was saved");
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let failure =
        (0..8).find_map(|seed| run::<BuggyStore<{ Bug::NoChecksum as u8 }>>(&plan(seed)).err());
    let text = failure.expect("the bug is found").to_string();
    assert!(text.contains("NIWAKI_CRASH_SEED="), "{text}");
}
