//! Parallel statements, in schedules that a seed determines.

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_testkit::parallel_queries;
use niwaki_testkit::schedules::{alone, schedules, simulate};
use niwaki_testkit::sql::query;
use niwaki_types::Datum;

#[test]
fn threads_read_the_rows_of_one_moment() {
    simulate(schedules(1_000), parallel_queries::run);
}

/// Requires parallel threads, which the schedules rely on.
#[test]
fn other_threads_are_there() {
    alone(|| {
        let database = Database::open_with(Env::memory(), Options::new()).unwrap();
        let mut session = database.session();
        let sql = "create table t as select i from generate_series(1, 10) i; \
                   set min_parallel_table_scan_size = 0; set max_parallel_workers_per_gather = 2";
        query(&mut session, sql).unwrap();
        let plan = query(&mut session, "explain analyze select count(*) from t").unwrap();
        let launched = |row: &Vec<Datum>| matches!(&row[0], Datum::Text(line) if line.contains("Workers Launched: 2"));
        assert!(plan.rows.iter().any(launched), "{:?}", plan.rows);
    });
}
