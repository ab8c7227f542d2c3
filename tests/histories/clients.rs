//! Clients that append to lists and read them, and the kills between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use postgres::Client;
use postgres::SimpleQueryMessage::Row;
use support::{Random, Server, TempDir};

use crate::judge::{Key, Level, Operation, Outcome, Transaction, Value};

/// Number of lists: few, so that transactions meet.
const KEYS: Key = 5;
const SESSIONS: u64 = 6;
/// Number of transactions of each session in each round, if it is not killed before.
const TRANSACTIONS: u64 = 60;

/// State that all sessions share.
#[derive(Default)]
struct World {
    clock: AtomicU64,
    values: AtomicU32,
    history: Mutex<Vec<Transaction>>,
}

impl World {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn value(&self) -> Value {
        self.values.fetch_add(1, Ordering::SeqCst)
    }
}

/// Runs clients for this number of rounds, each ended by a kill. Returns all transactions, and the
/// lists in the end.
pub(crate) fn run(
    level: Level,
    seed: u64,
    rounds: u64,
) -> (Vec<Transaction>, BTreeMap<Key, Vec<Value>>) {
    let dir = TempDir::new("histories");
    // Transactions take their locks in any order.
    let settings = ["--set", "shared_buffers=1MB", "--set", "deadlock_timeout=10ms"];
    let mut server = Server::start(&dir.path().join("data"), &settings);
    prepare(&mut server.client());
    let world = Arc::new(World::default());
    for round in 0..rounds {
        let mut random = Random::new(seed.wrapping_mul(1000) + round);
        let (acknowledged, commits) = channel();
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let (world, client) = (Arc::clone(&world), server.client());
                let acknowledged = acknowledged.clone();
                let session = round * SESSIONS + session;
                let mut random = Random::new(seed.wrapping_mul(100_003) + session);
                // Neighbouring seeds begin alike; a few numbers later they differ.
                (0..8).for_each(|_| _ = random.below(2));
                thread::spawn(move || {
                    work(&world, client, session, level, &mut random, &acknowledged);
                })
            })
            .collect();
        drop(acknowledged);
        // The moment of the kill is a number of commits. It may also come when all sessions have
        // ended.
        let until = usize::try_from(50 + random.below(250)).expect("small");
        commits.iter().take(until).for_each(drop);
        server.kill();
        for session in sessions {
            session.join().expect("a session ends");
        }
        server.restart();
    }
    let mut client = server.client();
    let lists = (1..=KEYS).map(|key| (key, read(&mut client, key, 0).expect("it is read")));
    let lists = lists.collect();
    assert!(server.stop());
    support::check(&dir.path().join("data"));
    let history = std::mem::take(&mut *world.history.lock().expect("no session panicked"));
    (history, lists)
}

fn prepare(client: &mut Client) {
    client
        .batch_execute(&format!(
            "create table list (key int primary key, tag int not null, elements text not null);
             create index list_tag on list (tag);
             insert into list select key, 100 + key, '' from generate_series(1, {KEYS}) as key"
        ))
        .expect("the table is new");
}

/// Works until the connection breaks, or all is done.
fn work(
    world: &World,
    mut client: Client,
    session: u64,
    level: Level,
    random: &mut Random,
    acknowledged: &Sender<()>,
) {
    for _ in 0..TRANSACTIONS {
        let began = world.now();
        let mut operations = Vec::new();
        let outcome = transaction(world, &mut client, level, random, &mut operations);
        if outcome == Outcome::Committed {
            // The receiver is gone once the moment of the kill has come.
            let _ = acknowledged.send(());
        }
        let ended = world.now();
        let one = Transaction { session, began, ended, outcome, operations };
        world.history.lock().expect("no session panicked").push(one);
        if client.is_closed() {
            return;
        }
    }
}

fn transaction(
    world: &World,
    client: &mut Client,
    level: Level,
    random: &mut Random,
    operations: &mut Vec<Operation>,
) -> Outcome {
    let name = match level {
        Level::ReadCommitted => "read committed",
        Level::RepeatableRead => "repeatable read",
    };
    let count = 1 + random.below(4);
    let mut commit_sent = false;
    let mut run = || -> Result<(), postgres::Error> {
        client.batch_execute(&format!("begin isolation level {name}"))?;
        for _ in 0..count {
            let key = 1 + Key::try_from(random.below(KEYS.into())).expect("small");
            if random.below(2) == 0 {
                let values = read(client, key, random.below(3))?;
                operations.push(Operation::Read(key, values));
            } else {
                let value = world.value();
                // Noted first: an append that fails aborts its transaction.
                operations.push(Operation::Append(key, value));
                append(client, key, value, random)?;
            }
        }
        commit_sent = true;
        client.batch_execute("commit")
    };
    match run() {
        Ok(()) => Outcome::Committed,
        Err(error) if error.is_closed() || client.is_closed() || error.code().is_none() => {
            if commit_sent {
                Outcome::Unknown
            } else {
                Outcome::Aborted
            }
        }
        Err(error) => {
            let state = error.code().expect("an error of the server's").code();
            // Of the server's errors, only a conflict or a deadlock may end a transaction.
            assert!(["40001", "40P01"].contains(&state), "{error:?}");
            let _ = client.batch_execute("rollback");
            Outcome::Aborted
        }
    }
}

/// Reads the elements, by the primary key, by another index, or with a lock that waits.
fn read(client: &mut Client, key: Key, how: u64) -> Result<Vec<Value>, postgres::Error> {
    let sql = match how {
        0 => format!("select elements from list where key = {key}"),
        1 => format!("select elements from list where tag = {}", 100 + key),
        _ => format!("select elements from list where key = {key} + 0 for update"),
    };
    let mut text = String::new();
    for message in client.simple_query(&sql)? {
        if let Row(row) = message {
            text = row.get(0).expect("not null").to_owned();
        }
    }
    Ok(text.split_terminator(',').map(|value| value.parse().expect("a number")).collect())
}

/// Appends an element in one of the ways that applications take.
fn append(
    client: &mut Client,
    key: Key,
    value: Value,
    random: &mut Random,
) -> Result<(), postgres::Error> {
    let longer = format!("elements = list.elements || '{value},'");
    client.batch_execute(&match random.below(6) {
        0 => format!(
            "insert into list values ({key}, 0, '') on conflict (key) do update set {longer}"
        ),
        1 => format!(
            "update list set {longer} where key = (select key from list where tag = {} for update)",
            100 + key
        ),
        2 => format!(
            "with c as materialized (select key from list where key = {key} for update)
             update list set {longer} from c where c.key = list.key"
        ),
        3 => format!(
            "savepoint s; update list set elements = 'x'; rollback to s;
             update list set {longer} where key = {key}"
        ),
        4 => format!(
            "merge into list using (values ({key})) as v (key) on v.key = list.key
             when matched then update set {longer}"
        ),
        _ => format!("update list set {longer} where tag = {}", 100 + key),
    })
}
