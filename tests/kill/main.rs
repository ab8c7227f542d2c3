//! `kill -9` in the middle of work: everything that was acknowledged or read is there afterwards.
//!
//! Eight clients move money between accounts and write their transfers into `entry`. Each client
//! remembers the server's acknowledgements, and its reads of the others. Beside them runs pgbench,
//! and a maintenance client makes checkpoints, vacuums, builds indexes and replaces them. The
//! server is killed, some rounds again during recovery, and started again.
//!
//! Then for every client its entries are there without a gap up to at least the last one
//! acknowledged or read. At most the one commit in flight may be there beyond. Balances and counts
//! equal those in the entries, the sums of pgbench agree, and `niwaki check` is clean.
//!
//! No moment is a time. The server dies when the clients together have seen a number of commits
//! acknowledged. A recovery dies when it has read and written a number of bytes. `NIWAKI_KILL_SEED`
//! (1 unless given) determines these numbers and every client's choices, for each round by itself.
//! `NIWAKI_KILL_ROUNDS` (5) gives the number of rounds. Both are printed.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;

use support::{Random, Server, TempDir, check, text};

const CLIENTS: usize = 8;
const ACCOUNTS: u64 = 50;
/// A pool smaller than the data, so that pages are evicted; checkpoints by log volume too.
const SETTINGS: [&str; 4] = ["--set", "shared_buffers=4MB", "--set", "max_wal_size=64MB"];
/// Least and greatest number of commits that the clients see acknowledged before the kill.
const COMMITS: (u64, u64) = (50, 1500);

/// The clients' knowledge, kept outside the server.
#[derive(Default)]
struct Ledger {
    /// Last entry of each client whose commit was acknowledged.
    acknowledged: [AtomicI32; CLIENTS],
    /// Last entry of each client that some client read.
    read: [AtomicI32; CLIENTS],
    /// Last entry of each client whose commit was sent.
    sent: [AtomicI32; CLIENTS],
}

fn setup(server: &Server) {
    server
        .client()
        .batch_execute(
            "create table account (id int primary key, balance int8 not null, changes int8 not null);
             create table entry (client int, seq int, account int, delta int8 not null,
                                 primary key (client, seq));
             create index entry_account on entry (account);
             create index account_balance on account (balance);
             insert into account select i, 0, 0 from generate_series(0, 49) as i",
        )
        .expect("the tables");
    let output = server.run("pgbench", &["-i", "-s", "1", "-q"]);
    assert!(output.status.success(), "pgbench -i: {}", text(&output));
}

/// Works until the connection breaks; sends to `acknowledged` after each commit.
fn work(
    mut client: postgres::Client,
    number: usize,
    ledger: &Ledger,
    acknowledged: &mpsc::Sender<()>,
    mut random: Random,
) -> Result<(), postgres::Error> {
    let me = i32::try_from(number).unwrap();
    let update = client.prepare(
        "update account set balance = balance + $1, changes = changes + 1 where id = $2",
    )?;
    let insert = client.prepare("insert into entry values ($1, $2, $3, $4)")?;
    let newest = client.prepare("select max(seq) from entry where client = $1")?;
    loop {
        let seq = ledger.sent[number].load(Ordering::SeqCst) + 1;
        let account = i32::try_from(random.below(ACCOUNTS)).unwrap();
        let delta = i64::try_from(random.below(1000)).unwrap() - 500;
        let mut transaction = client.transaction()?;
        if random.below(4) == 0 {
            // Rolled back work must leave no trace.
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
        // The receiver is gone once the server is to die; the next statement meets that.
        let _ = acknowledged.send(());
        if random.below(3) == 0 {
            let other = usize::try_from(random.below(CLIENTS as u64)).unwrap();
            let row = client.query_one(&newest, &[&i32::try_from(other).unwrap()])?;
            if let Some(seen) = row.get::<_, Option<i32>>(0) {
                ledger.read[other].fetch_max(seen, Ordering::SeqCst);
            }
        }
    }
}

/// Makes a checkpoint, a vacuum, a new index or a replaced one beside the writers. Does so at each
/// request, until the connection breaks or the requests end.
fn maintain(
    mut client: postgres::Client,
    asked: &mpsc::Receiver<()>,
    mut random: Random,
) -> Result<(), postgres::Error> {
    while asked.recv().is_ok() {
        let statements: &[&str] = match random.below(8) {
            0 => &["checkpoint"],
            1 => &["vacuum account"],
            2 => &["vacuum entry"],
            3 => &["vacuum pgbench_branches"],
            4 => &["create index entry_extra on entry (delta); drop index entry_extra"],
            // Writers remove entries from the old index until it is dropped.
            5 | 6 => &["reindex table concurrently account"],
            _ => &[
                "drop index concurrently if exists account_balance",
                "create index concurrently account_balance on account (balance)",
            ],
        };
        for statement in statements {
            client.batch_execute(statement)?;
        }
    }
    Ok(())
}

/// Lets all clients work until `commits` of their commits were acknowledged, then kills the server.
fn work_until_killed(server: &mut Server, ledger: &Ledger, commits: u64, random: &mut Random) {
    let dying = &AtomicBool::new(false);
    let (acknowledged, acknowledgements) = mpsc::channel();
    let (ask, asked) = mpsc::channel();
    let pgbench = server
        .command("pgbench", &["-n", "-c", "4", "-j", "2", "-T", "3600", "-M", "prepared"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut pgbench = pgbench.expect("pgbench (PostgreSQL 15 clients) is needed");
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let connection = server.client();
            let (random, acknowledged) = (random.fork(), acknowledged.clone());
            scope.spawn(move || {
                let outcome = work(connection, client, ledger, &acknowledged, random);
                let error = outcome.expect_err("works for ever");
                let expected = dying.load(Ordering::SeqCst);
                assert!(expected, "client {client} failed before the kill: {error:?}");
            });
        }
        // Only the clients' senders are left: the channel ends when all of them are gone.
        drop(acknowledged);
        let (connection, maintenance) = (server.client(), random.fork());
        scope.spawn(move || {
            if let Err(error) = maintain(connection, &asked, maintenance) {
                assert!(dying.load(Ordering::SeqCst), "maintenance failed: {error:?}");
            }
        });
        for number in 1..=commits {
            acknowledgements.recv().expect("a client that still works");
            if number % 25 == 0 {
                let _ = ask.send(());
            }
        }
        dying.store(true, Ordering::SeqCst);
        server.kill();
        drop(ask);
    });
    pgbench.wait().expect("pgbench ends without a server");
}

/// Recovers a copy of `data`, to learn how many bytes a recovery reads and writes. Then kills
/// recoveries of `data` itself at seeded numbers of bytes. Returns the number of recoveries that
/// died before they were done.
fn kill_recoveries(data: &Path, kills: u64, random: &mut Random) -> u64 {
    let mut interrupted = 0;
    for _ in 0..kills {
        let copy = TempDir::new("kill-copy");
        copy_folder(data, &copy.path().join("data"));
        let calm = Server::start(&copy.path().join("data"), &SETTINGS);
        let bytes = 1 + random.below(calm.io_bytes());
        drop(calm);
        let mut recovering = Server::launch(data, &SETTINGS);
        // Ends: it goes on to read and write until it is ready.
        while recovering.io_bytes() < bytes && !recovering.is_ready() {}
        recovering.kill();
        interrupted += u64::from(!recovering.is_ready());
    }
    interrupted
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    // A folder that others may read is no data directory.
    let mode = std::fs::metadata(from).expect("a folder").permissions();
    std::fs::set_permissions(to, mode).expect("a mode");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
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
        // All clients build on the entries that are there now.
        ledger.sent[number].store(last, Ordering::SeqCst);
        ledger.acknowledged[number].store(last, Ordering::SeqCst);
    }
    let mut sums = HashMap::<i32, (i64, i64)>::new();
    for row in client.query("select account, delta from entry", &[]).expect("the entries") {
        let (sum, count) = sums.entry(row.get(0)).or_default();
        *sum += row.get::<_, i64>(1);
        *count += 1;
    }
    let accounts = client.query("select id, balance, changes from account", &[]);
    for row in accounts.expect("the accounts") {
        let id: i32 = row.get(0);
        let expected = sums.get(&id).copied().unwrap_or_default();
        assert_eq!((row.get(1), row.get(2)), expected, "balance and changes of account {id}");
    }
    let pgbench = client.query_one(
        "select (select sum(abalance) from pgbench_accounts)::int8, \
                (select sum(tbalance) from pgbench_tellers)::int8, \
                (select sum(bbalance) from pgbench_branches)::int8, \
                (select coalesce(sum(delta), 0) from pgbench_history)::int8",
        &[],
    );
    let pgbench = pgbench.expect("the sums of pgbench");
    let sums: Vec<i64> = (0..4).map(|column| pgbench.get(column)).collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "sums of pgbench differ: {sums:?}");
}

#[test]
fn nothing_acknowledged_or_read_is_lost() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let rounds = number("NIWAKI_KILL_ROUNDS", 5);
    let seed = number("NIWAKI_KILL_SEED", 1);
    println!("NIWAKI_KILL_SEED={seed} NIWAKI_KILL_ROUNDS={rounds}");
    let dir = TempDir::new("kill");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &SETTINGS);
    setup(&server);
    let ledger = Ledger::default();
    let (mut kills, mut interrupted) = (0, 0);

    for round in 0..rounds {
        let mut random = Random::new(seed.wrapping_mul(1_000_003) + round);
        let commits = COMMITS.0 + random.below(COMMITS.1 - COMMITS.0);
        work_until_killed(&mut server, &ledger, commits, &mut random);
        let recoveries = if round % 2 == 0 { 1 + random.below(2) } else { 0 };
        kills += recoveries;
        interrupted += kill_recoveries(&data, recoveries, &mut random);
        if round % 2 == 0 {
            check(&data);
        }
        server = Server::start(&data, &SETTINGS);
        verify(&mut server.client(), &ledger);
        let total: i32 = ledger.acknowledged.iter().map(|seq| seq.load(Ordering::SeqCst)).sum();
        println!(
            "round {}/{rounds}: killed after {commits} more, {interrupted} of {kills} recoveries \
             interrupted, {total} commits are there",
            round + 1
        );
    }
    // A recovery that has ended before the kill proves nothing: some must have been under way.
    assert!(kills == 0 || interrupted > 0, "none of {kills} recoveries was interrupted");
    assert!(server.stop(), "a clean stop: {}", server.stderr());
    check(&data);
}
