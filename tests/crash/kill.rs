//! The server as users run it, killed with SIGKILL in the middle of its work: whatever a client saw
//! acknowledged, and whatever another client read, is there afterwards.
//!
//! Clients keep the ledger: they are not killed. `NIWAKI_KILL_ROUNDS` sets the number of kills (5 in
//! CI, 100 in the long tier), `NIWAKI_BIN` the binary; otherwise it is built.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use niwaki_env::rng::SeededRng;
use niwaki_testkit::client::{Client, ClientError};

const CLIENTS: u32 = 6;
const ACCOUNTS: u64 = 20;

/// What clients know.
#[derive(Debug, Default)]
struct Ledger {
    /// For each client: its acknowledged transactions.
    acknowledged: BTreeMap<u32, BTreeSet<i64>>,
    /// For each client: the last transaction it asked to commit.
    asked: BTreeMap<u32, i64>,
    /// For each client: the last of its transactions that another client has seen.
    seen: BTreeMap<u32, i64>,
}

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only when a test fails half-way; errors do not matter then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("NIWAKI_BIN") {
        return PathBuf::from(path);
    }
    let me = std::env::current_exe().expect("the test's own path");
    let folder = me.parent().and_then(Path::parent).expect("target/profile/deps/test").to_owned();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "niwaki-cli"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo runs").success(), "the server is built");
    folder.join("niwaki")
}

fn spawn(binary: &Path, data: &Path) -> Child {
    let mut serve = Command::new(binary);
    serve.arg("serve").arg("--data-dir").arg(data).args(["--listen", "127.0.0.1:0"]);
    serve.args(["--set", "shared_buffers=1MB"]);
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the server starts")
}

fn start(binary: &Path, data: &Path) -> Server {
    let mut child = spawn(binary, data);
    let output = child.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(output).lines();
    // Ends with the server's output at the latest.
    let ready = lines.find_map(|line| {
        let line = line.expect("text from the server");
        Some(line.strip_prefix("niwaki ready on ")?.trim().to_owned())
    });
    let address = ready.expect("the server says that it is ready");
    Server { child, address }
}

/// One client's transactions until the server is gone.
fn work(address: &str, client: u32, seed: u64, ledger: &Mutex<Ledger>, acknowledged: &AtomicU64) {
    let rng = SeededRng::new(seed ^ u64::from(client));
    let Ok(mut connection) = Client::connect(address) else { return };
    let mut next = ledger.lock().unwrap().asked.get(&client).map_or(1, |asked| asked + 1);
    loop {
        let account = rng.below(ACCOUNTS);
        let delta = i64::try_from(rng.below(2001)).unwrap() - 1000;
        let statements = [
            "begin".to_owned(),
            format!("update account set v = v + {delta}, n = n + 1 where k = {account}"),
            format!("insert into history values ({client}, {next}, {account}, {delta})"),
            "commit".to_owned(),
        ];
        for statement in &statements {
            if statement == "commit" {
                ledger.lock().unwrap().asked.insert(client, next);
            }
            match connection.query(statement) {
                Ok(_) => {}
                Err(ClientError::Connection(_)) => return,
                Err(ClientError::Server { state, .. }) if state.starts_with("57P") => return,
                Err(error) => panic!("client {client}: {statement}: {error}"),
            }
        }
        ledger.lock().unwrap().acknowledged.entry(client).or_default().insert(next);
        acknowledged.fetch_add(1, Ordering::SeqCst);
        next += 1;
        if rng.chance(1, 8) {
            let other = 1 + u32::try_from(rng.below(CLIENTS.into())).unwrap();
            let sql = format!("select max(number) from history where client = {other}");
            let Ok(rows) = connection.query(&sql) else { return };
            if let Some(number) = rows.first().and_then(|row| row[0].clone()) {
                let number: i64 = number.parse().expect("a number");
                let mut ledger = ledger.lock().unwrap();
                let seen = ledger.seen.entry(other).or_default();
                *seen = number.max(*seen);
            }
        }
    }
}

fn text(rows: &[Vec<Option<String>>]) -> Vec<i64> {
    let number = |text: &Option<String>| text.as_deref().unwrap_or("0").parse().expect("a number");
    rows.iter().flat_map(|row| row.iter().map(number)).collect()
}

/// Compares the database with the ledger.
fn verify(address: &str, ledger: &mut Ledger) {
    let mut connection = Client::connect(address).unwrap_or_else(|error| panic!("{error}"));
    let mut ask =
        |sql: &str| text(&connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
    for client in 1..=CLIENTS {
        let found = ask(&format!("select number from history where client = {client} order by 1"));
        let distinct: BTreeSet<i64> = found.iter().copied().collect();
        assert_eq!(distinct.len(), found.len(), "client {client}: a transaction came twice");
        let acknowledged = ledger.acknowledged.entry(client).or_default();
        let lost: Vec<_> = acknowledged.difference(&distinct).collect();
        assert!(lost.is_empty(), "client {client}: acknowledged and lost: {lost:?}");
        if let Some(seen) = ledger.seen.get(&client) {
            assert!(distinct.contains(seen), "client {client}: {seen} was read and is lost");
        }
        let asked = ledger.asked.get(&client).copied().unwrap_or(0);
        let last = distinct.last().copied().unwrap_or(0);
        assert!(last <= asked, "client {client}: {last} found, only {asked} asked for");
        // What survived without an acknowledgement has to stay from now on.
        *acknowledged = distinct;
    }
    let sums = ask("select sum(v), sum(n) from account");
    let history = ask("select sum(delta), count(*) from history");
    assert_eq!(sums, history, "sums of accounts and of their history");
    for account in 0..ACCOUNTS {
        let one = ask(&format!("select v, n from account where k = {account}"));
        let its = ask(&format!("select sum(delta), count(*) from history where k = {account}"));
        assert_eq!(one, its, "account {account} and its history");
    }
}

#[test]
fn acknowledged_transactions_survive_kill_9() {
    let rounds: u64 = std::env::var("NIWAKI_KILL_ROUNDS")
        .map_or(5, |text| text.parse().expect("NIWAKI_KILL_ROUNDS is a number"));
    let seed: u64 = std::env::var("NIWAKI_KILL_SEED")
        .map_or(1, |text| text.parse().expect("NIWAKI_KILL_SEED is a number"));
    let rng = SeededRng::new(seed);
    let binary = binary();
    let data = std::env::temp_dir().join(format!("niwaki-kill-{}-{seed}", std::process::id()));
    let mut ledger = Ledger::default();

    let mut server = start(&binary, &data);
    let mut connection = Client::connect(&server.address).unwrap_or_else(|error| panic!("{error}"));
    for sql in [
        "create table account (k int4 primary key, v int8 not null, n int8 not null)",
        "create table history (client int4, number int8, k int4, delta int8, primary key (client, number))",
        "create index history_k on history (k)",
        &format!("insert into account select i - 1, 0, 0 from generate_series(1, {ACCOUNTS}) i"),
    ] {
        connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    drop(connection);

    let mut total = 0;
    for round in 0..rounds {
        let shared = Arc::new(Mutex::new(std::mem::take(&mut ledger)));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| {
                let (shared, acknowledged) = (Arc::clone(&shared), Arc::clone(&acknowledged));
                let (address, seed) = (server.address.clone(), seed ^ round << 8);
                std::thread::spawn(move || work(&address, client, seed, &shared, &acknowledged))
            })
            .collect();
        // The moment is a number of acknowledgements, so it lies in the middle of the work on any
        // machine. Ends early if all clients are gone, which the check below notices.
        let enough = 20 + rng.below(600);
        while acknowledged.load(Ordering::SeqCst) < enough
            && clients.iter().any(|client| !client.is_finished())
        {
            std::thread::yield_now();
        }
        server.child.kill().expect("the server is killed");
        server.child.wait().expect("the server is gone");
        clients.into_iter().for_each(|client| client.join().expect("a client's thread"));
        let done = acknowledged.load(Ordering::SeqCst);
        assert!(done >= enough, "round {round}: clients stopped after {done} transactions");
        total += done;
        ledger = Arc::into_inner(shared).expect("clients are gone").into_inner().unwrap();

        // Some recoveries are killed too, at a moment of their own.
        if rng.chance(1, 3) {
            let mut recovering = spawn(&binary, &data);
            std::thread::sleep(Duration::from_micros(rng.below(30_000)));
            recovering.kill().expect("the recovery is killed");
            recovering.wait().expect("the server is gone");
        }
        server = start(&binary, &data);
        verify(&server.address, &mut ledger);
        eprintln!("round {}: {done} transactions acknowledged, all there", round + 1);
    }
    let id = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    assert!(server.child.wait().expect("the server ends").success(), "a clean stop");
    let check = Command::new(&binary).arg("check").arg("--data-dir").arg(&data).output();
    let check = check.expect("the check runs");
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "check: {said} {}", String::from_utf8_lossy(&check.stderr));
    std::fs::remove_dir_all(&data).expect("the data directory is removed");
    eprintln!("{rounds} kills, {total} transactions");
}
