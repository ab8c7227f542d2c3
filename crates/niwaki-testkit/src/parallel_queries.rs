//! Parallel statements beside sessions that change the rows they read.
//!
//! Each parallel statement sees the rows of one moment, or ends with the error of one of its
//! threads. Run inside a schedule (`schedules`).

use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use crate::schedules::seed;
use crate::sql::{integer, query};

/// Number of accounts. Each fills a page: more than a thread takes at once.
const ACCOUNTS: u64 = 40;
const TOTAL: i64 = 100 * ACCOUNTS as i64;
const ROUNDS: usize = 4;

/// Statements whose rows are numbers that add up to [`TOTAL`].
const TOTALS: [&str; 4] = [
    "select sum(v)::int8 from account",
    "select sum(v)::int8 from account group by k % 5",
    // The inner side, which parallel threads help to read, is the larger one.
    "select sum(a.v)::int8 from number n join account a on a.k = n.k",
    "select a.v::int8 from number n left join account a on a.k = n.k",
];

/// A statement that fails in each thread that reads the row of that key.
const FAILING: &str = "select sum(1 / (k - 17))::int8 from account";

fn numbers(session: &mut Session, sql: &str) -> Result<Vec<i64>, niwaki::SqlError> {
    let rows = query(session, sql)?.rows;
    Ok(rows.iter().map(|row| integer(&row[0]).expect("a number")).collect())
}

/// Moves an amount from one account to another. Accounts may come and go.
fn transfer(mut session: Session, rng: &SeededRng) {
    for _ in 0..ROUNDS {
        query(&mut session, "begin").expect("begin always works");
        let (from, to, amount) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), 1 + rng.below(9));
        for (account, sign) in [(from, '-'), (to, '+')] {
            let sql = format!("update account set v = v {sign} {amount} where k = {account}");
            query(&mut session, &sql).expect("nobody else writes");
        }
        let end = if rng.chance(1, 5) { "rollback" } else { "commit" };
        query(&mut session, end).expect("a transaction ends");
    }
}

/// Reads with parallel threads. Another session may cancel the statement.
fn read(mut session: Session, rng: &SeededRng) {
    for _ in 0..ROUNDS {
        let failing = rng.chance(1, 5);
        let sql = if failing { FAILING } else { TOTALS[rng.below(TOTALS.len() as u64) as usize] };
        match numbers(&mut session, sql) {
            Ok(rows) => {
                assert!(!failing, "{sql}: {rows:?}");
                assert_eq!(rows.iter().sum::<i64>(), TOTAL, "{sql}: {rows:?}");
            }
            Err(error) if error.sqlstate == "57014" => {}
            Err(error) => assert!(failing && error.sqlstate == "22012", "{sql}: {error}"),
        }
    }
}

/// Runs a parallel reader, a writer, the gardener, and a session that cancels the reader's
/// statements.
///
/// # Panics
/// When a statement gives other rows, or the check finds something.
pub fn run() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let options = Options::new().small_files(true).set("shared_buffers", "512kB");
    let database = Database::open_with(env, options).expect("the database opens");
    let mut session = database.session();
    let sql = format!(
        "create table account (k int primary key, v int, filler text) with (fillfactor = 10); \
         insert into account select i, 100, repeat('x', 500) from generate_series(0, {ACCOUNTS} - 1) i; \
         create table number (k int); \
         insert into number select generate_series(0, {ACCOUNTS} - 1); \
         analyze"
    );
    query(&mut session, &sql).expect("the tables are made");

    let mut reader = database.session();
    let settings = "set min_parallel_table_scan_size = 0; set max_parallel_workers_per_gather = 2; \
                    set enable_mergejoin = off; set enable_nestloop = off";
    query(&mut reader, settings).expect("settings are set");
    let (id, secret) = (reader.id(), reader.secret());
    let rng = |number: u64| SeededRng::new(seed ^ number);
    let (reads, writes, cancels) = (rng(1), rng(2), rng(3));
    let writer = database.session();
    let (gardened, asked) = (database.clone(), database.clone());
    let threads = [
        thread::spawn(move || read(reader, &reads)),
        thread::spawn(move || transfer(writer, &writes)),
        thread::spawn(move || {
            for _ in 0..2 {
                gardened.clean_up().expect("a round of the gardener");
            }
        }),
        thread::spawn(move || {
            for _ in 0..cancels.below(3) {
                for _ in 0..cancels.below(2_000) {
                    thread::yield_now();
                }
                asked.cancel(id, secret);
            }
        }),
    ];
    for thread in threads {
        thread.join().expect("a thread ends");
    }
    assert_eq!(numbers(&mut session, TOTALS[0]).expect("a sum"), [TOTAL]);
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
