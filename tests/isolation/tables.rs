//! Sessions on tables and transactions, without SQL, against the model.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_testkit::crash::follow;
use niwaki_testkit::model::Model;
use niwaki_testkit::reports::TablesBesideReport;
use niwaki_testkit::tables::{AnyKeyTables, TestedTables};
use niwaki_testkit::tested_database::TestedDatabase;
use niwaki_testkit::workload::{Mix, Workload};

fn run(seed: u64, mix: Mix, steps: usize) {
    run_as::<TestedTables>(seed, mix, steps);
    run_as::<AnyKeyTables>(seed, mix, steps);
    run_as::<TablesBesideReport>(seed, mix, steps);
}

fn run_as<S: TestedDatabase>(seed: u64, mix: Mix, steps: usize) {
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let mut tested = S::open(env, true).expect("an empty database opens");
    let mut model = Model::new();
    let mut workload = Workload::new(mix, seed);
    let outcome = follow(&mut tested, &mut model, &mut workload, steps, |_| {});
    outcome.unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    let rows = tested.rows().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(rows, model.visible(model.commits()), "seed {seed}");
    tested.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn one_session_agrees_with_the_model() {
    for seed in 0..20 {
        run(seed, Mix { keys: 8, ..Mix::default() }, 400);
    }
}

#[test]
fn four_sessions_agree_with_the_model() {
    for seed in 0..30 {
        run(seed, Mix { keys: 16, sessions: 4, ..Mix::default() }, 800);
    }
}

#[test]
fn many_keys_split_pages() {
    run(1, Mix { keys: 2000, sessions: 2, ..Mix::default() }, 6000);
}
