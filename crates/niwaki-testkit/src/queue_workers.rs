//! Workers that lock a row and count it in one statement, as queues do.
//!
//! Each acknowledged count must be there. Run inside a schedule (`schedules`).

use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use crate::schedules::seed;
use crate::sql::{integer, query};

const WORKERS: u64 = 3;
const ROUNDS: usize = 3;

/// Statements that each count one row at most, and return a row for it.
const CLAIMS: [&str; 5] = [
    "update job set n = n + 1 where id = (select id from job order by n, id limit 1 for update) \
     returning id",
    "update job set n = n + 1 where id = (select id from job order by n, id limit 1 \
     for update skip locked) returning id",
    "with c as (select id from job order by n, id limit 1 for update) \
     update job set n = n + 1 from c where c.id = job.id returning job.id",
    "update job set n = job.n + 1 from (select id from job order by n, id limit 1 for update) c \
     where c.id = job.id returning job.id",
    "update job set n = n + 1 where id = 1 returning id",
];

/// Counts; returns the number of acknowledged counts.
fn count(mut session: Session, rng: &SeededRng) -> i64 {
    let mut counted = 0;
    for _ in 0..ROUNDS {
        let sql = CLAIMS[rng.below(CLAIMS.len() as u64) as usize];
        let rows = query(&mut session, sql).expect("one row at a time has no deadlock").rows;
        counted += i64::try_from(rows.len()).expect("a few rows");
    }
    counted
}

/// Runs the workers of one queue.
///
/// # Panics
/// When a count that was acknowledged is not there.
pub fn run() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let database = Database::open_with(env, Options::new()).expect("the database opens");
    let mut session = database.session();
    let sql = "create table job (id int primary key, n int8 not null); \
               insert into job values (1, 0), (2, 0)";
    query(&mut session, sql).expect("the table is made");
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (worker, rng) = (database.session(), SeededRng::new(seed ^ number));
            thread::spawn(move || count(worker, &rng))
        })
        .collect();
    let counted: i64 = workers.into_iter().map(|worker| worker.join().expect("it ends")).sum();
    let stored = query(&mut session, "select sum(n)::int8 from job").expect("a sum").rows;
    assert_eq!(integer(&stored[0][0]), Ok(counted), "counts that were acknowledged are not there");
}
