//! Random schemas by every path, against the model.
//!
//! `SEED=n` repeats one run; `RUNS=n` makes as many.

use niwaki_table::HeapOnlyUpdates;
use niwaki_testkit::chains::{Effort, Plan, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs with several seeds; a failure names its seed.
fn runs(heap_only: HeapOnlyUpdates, all_mixed: bool) -> Vec<Effort> {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS").unwrap_or(20),
    };
    let one = |seed| {
        let plan = Plan { seed, steps: 300, heap_only, all_mixed };
        std::panic::catch_unwind(|| run(plan)).unwrap_or_else(|panic| {
            eprintln!("to repeat: SEED={seed}, {plan:?}");
            std::panic::resume_unwind(panic)
        })
    };
    seeds.map(one).collect()
}

/// Keys change to others and back, predicates turn, payloads change, updates are rolled back. No
/// clean-up runs.
#[test]
fn chains_of_any_keys_give_what_the_model_says() {
    let efforts = runs(HeapOnlyUpdates::AnyKey, false);
    runs(HeapOnlyUpdates::AnyKey, true);
    let sum = |of: fn(&Effort) -> u64| efforts.iter().map(of).sum::<u64>();
    let (updated, heap_only) =
        (sum(|e| e.table.updates.total()), sum(|e| e.table.updates.heap_only_total()));
    assert!(heap_only * 10 > updated * 8, "{heap_only} of {updated} updates were heap-only");
    assert!(sum(|e| e.suppressed) > 0 && sum(|e| e.marked) > 0, "{efforts:?}");
    assert!(sum(|e| e.mixed) > 0, "{efforts:?}");
}

#[test]
fn every_path_gives_what_the_model_says() {
    runs(HeapOnlyUpdates::SameKeys, false);
    runs(HeapOnlyUpdates::Off, false);
}

/// A wrong mark of a root as mixed costs a comparison, and changes no answer.
#[test]
fn a_mark_on_every_root_changes_no_answer() {
    runs(HeapOnlyUpdates::SameKeys, true);
    runs(HeapOnlyUpdates::Off, true);
}
