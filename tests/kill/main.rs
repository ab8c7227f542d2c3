//! `kill -9` in the middle of work: what was acknowledged, and what anyone read, is there.
//!
//! Eight clients move money between accounts and write what they did into `entry`; each remembers
//! what the server acknowledged, and what it read of the others. The server is killed at a random
//! moment, some rounds also during recovery, and started again. Then for every client its entries
//! are there without a gap up to at least the last one acknowledged or read; at most the one commit
//! in flight may be there beyond; balances equal the sums of entries; `niwaki check` is clean.
//!
//! `NIWAKI_KILL_ROUNDS` (default 5) and `NIWAKI_KILL_SEED` steer it; a failure prints the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use support::{Random, Server, TempDir, check};

const CLIENTS: usize = 8;
const ACCOUNTS: u64 = 50;

/// What the clients know, kept outside the server.
#[derive(Default)]
struct Ledger {
    /// Last entry of each client whose commit was acknowledged.
    acknowledged: [AtomicI32; CLIENTS],
    /// Last entry of each client that some client read.
    read: [AtomicI32; CLIENTS],
    /// Last entry of each client whose commit was sent.
    sent: [AtomicI32; CLIENTS],
}

fn setup(client: &mut postgres::Client) {
    client
        .batch_execute(
            "create table account (id int primary key, balance int8 not null);
             create table entry (client int, seq int, account int, delta int8 not null,
                                 primary key (client, seq));
             create index entry_account on entry (account);
             insert into account select i, 0 from generate_series(0, 49) as i",
        )
        .expect("the tables");
}

/// Works until the connection breaks.
fn work(
    mut client: postgres::Client,
    number: usize,
    ledger: &Ledger,
    mut random: Random,
) -> Result<(), postgres::Error> {
    let me = i32::try_from(number).unwrap();
    let update = client.prepare("update account set balance = balance + $1 where id = $2")?;
    let insert = client.prepare("insert into entry values ($1, $2, $3, $4)")?;
    let newest = client.prepare("select max(seq) from entry where client = $1")?;
    loop {
        let seq = ledger.sent[number].load(Ordering::SeqCst) + 1;
        let account = i32::try_from(random.below(ACCOUNTS)).unwrap();
        let delta = i64::try_from(random.below(1000)).unwrap() - 500;
        let mut transaction = client.transaction()?;
        if random.below(4) == 0 {
            // Work that is rolled back must leave no trace.
            let mut savepoint = transaction.savepoint("s")?;
            savepoint.execute(&update, &[&1_000_000_i64, &account])?;
            savepoint.execute(&insert, &[&me, &(seq + 1_000_000), &account, &1_000_000_i64])?;
            savepoint.rollback()?;
        }
        transaction.execute(&update, &[&delta, &account])?;
        transaction.execute(&insert, &[&me, &seq, &account, &delta])?;
        ledger.sent[number].store(seq, Ordering::SeqCst);
        transaction.commit()?;
        ledger.acknowledged[number].store(seq, Ordering::SeqCst);
        if random.below(3) == 0 {
            let other = usize::try_from(random.below(CLIENTS as u64)).unwrap();
            let row = client.query_one(&newest, &[&i32::try_from(other).unwrap()])?;
            if let Some(seen) = row.get::<_, Option<i32>>(0) {
                ledger.read[other].fetch_max(seen, Ordering::SeqCst);
            }
        }
    }
}

/// Checkpoints, vacuums and index builds beside the work, until the connection breaks.
fn maintain(mut client: postgres::Client, mut random: Random) -> Result<(), postgres::Error> {
    loop {
        let statement = match random.below(4) {
            0 => "checkpoint",
            1 => "vacuum account",
            2 => "vacuum entry",
            _ => "create index entry_extra on entry (delta); drop index entry_extra",
        };
        client.batch_execute(statement)?;
        thread::sleep(Duration::from_millis(random.below(60)));
    }
}

fn verify(client: &mut postgres::Client, ledger: &Ledger) {
    for number in 0..CLIENTS {
        let me = i32::try_from(number).unwrap();
        let row = client
            .query_one(
                "select count(*), coalesce(max(seq), 0) from entry where client = $1",
                &[&me],
            )
            .expect("the entries");
        let (count, last): (i64, i32) = (row.get(0), row.get(1));
        let acknowledged = ledger.acknowledged[number].load(Ordering::SeqCst);
        let read = ledger.read[number].load(Ordering::SeqCst);
        let sent = ledger.sent[number].load(Ordering::SeqCst);
        assert!(last >= acknowledged, "client {number}: acknowledged {acknowledged}, found {last}");
        assert!(last >= read, "client {number}: {read} was read by others, found {last}");
        assert!(last <= sent, "client {number}: sent {sent}, found {last}");
        assert_eq!(count, i64::from(last), "client {number}: entries without a gap");
        // What is there now is what everybody will build on.
        ledger.sent[number].store(last, Ordering::SeqCst);
        ledger.acknowledged[number].store(last, Ordering::SeqCst);
    }
    let mut sums = std::collections::HashMap::<i32, i64>::new();
    for row in client.query("select account, delta from entry", &[]).expect("the entries") {
        *sums.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
    }
    for row in client.query("select id, balance from account", &[]).expect("the accounts") {
        let (id, balance): (i32, i64) = (row.get(0), row.get(1));
        assert_eq!(balance, sums.get(&id).copied().unwrap_or(0), "balance of account {id}");
    }
}

#[test]
fn nothing_acknowledged_or_read_is_lost() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let rounds = number("NIWAKI_KILL_ROUNDS", 5);
    let seed = number("NIWAKI_KILL_SEED", u64::from(std::process::id()) + 1);
    println!("NIWAKI_KILL_SEED={seed} NIWAKI_KILL_ROUNDS={rounds}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let dir = TempDir::new("kill");
    let data = dir.path().join("data");
    let settings = ["--set", "shared_buffers=4MB", "--set", "max_wal_size=64MB"];
    let mut server = Server::start(&data, &settings);
    setup(&mut server.client());
    let ledger = Arc::new(Ledger::default());

    for round in 0..rounds {
        let stopping = AtomicBool::new(false);
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let connection = server.client();
                let random = Random(random.below(u64::MAX / 2) | 1);
                let (ledger, stopping) = (&ledger, &stopping);
                scope.spawn(move || {
                    let error =
                        work(connection, client, ledger, random).expect_err("works for ever");
                    assert!(
                        stopping.load(Ordering::SeqCst),
                        "round {round}: client {client} failed before the kill: {error:?}"
                    );
                });
            }
            let connection = server.client();
            let maintenance = Random(random.below(u64::MAX / 2) | 1);
            let stopped = &stopping;
            scope.spawn(move || {
                let error = maintain(connection, maintenance).expect_err("works for ever");
                assert!(stopped.load(Ordering::SeqCst), "maintenance failed: {error:?}");
            });
            thread::sleep(Duration::from_millis(200 + random.below(1500)));
            stopping.store(true, Ordering::SeqCst);
            server.kill();
        });
        for _ in 0..random.below(3) {
            let mut recovering = Server::launch(&data, &settings);
            thread::sleep(Duration::from_millis(random.below(120)));
            recovering.kill();
        }
        if round % 2 == 0 {
            check(&data);
        }
        server = Server::start(&data, &settings);
        verify(&mut server.client(), &ledger);
        let total: i32 = ledger.acknowledged.iter().map(|seq| seq.load(Ordering::SeqCst)).sum();
        println!("round {}/{rounds}: {total} commits are there", round + 1);
    }
    assert!(server.stop(), "a clean stop: {}", server.stderr());
    check(&data);
}
