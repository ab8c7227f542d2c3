//! Sessions interleaved statement by statement, against the model.
//!
//! Covered are snapshots at both isolation levels, own writes, savepoints, duplicates and
//! first-updater-wins.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_testkit::crash::follow;
use niwaki_testkit::model::Model;
use niwaki_testkit::sql::TestedSql;
use niwaki_testkit::tested_database::TestedDatabase;
use niwaki_testkit::workload::{Mix, Workload};

fn run(seed: u64, mix: Mix, steps: usize) {
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let mut tested = TestedSql::open(env.clone(), true).expect("an empty database opens");
    let mut model = Model::new();
    let mut workload = Workload::new(mix, seed);
    let outcome = follow(&mut tested, &mut model, &mut workload, steps, |_| {});
    outcome.unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    let rows = tested.rows().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(rows, model.visible(model.commits()), "seed {seed}");
    tested.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    drop(tested);
    // Committed rows are there after an ordinary stop and start.
    let mut again = TestedSql::open(env, true).expect("a closed database opens");
    assert_eq!(again.rows(), Ok(rows), "seed {seed}, opened again");
}

#[test]
fn one_session_agrees_with_the_model() {
    for seed in 0..6 {
        run(seed, Mix { keys: 12, ..Mix::default() }, 300);
    }
}

#[test]
fn four_sessions_agree_with_the_model() {
    for seed in 0..8 {
        run(seed, Mix { keys: 16, sessions: 4, ..Mix::default() }, 600);
    }
}

#[test]
fn many_keys_split_pages() {
    run(1, Mix { keys: 3000, sessions: 2, ..Mix::default() }, 4000);
}
