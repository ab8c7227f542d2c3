//! Transactions of one client, with the facts that must hold whenever the data can be read.

use postgres::Client;
use postgres::error::SqlState;
use support::Random;

/// Settings under which pages are evicted, and checkpoints begin by themselves.
pub(crate) const SETTINGS: [&str; 4] =
    ["--set", "shared_buffers=1MB", "--set", "max_wal_size=32MB"];

/// Rows of `item`.
const ITEMS: u64 = 30;

const TABLES: &str = "\
    create table item (id int primary key, n int not null, note text not null);
    create index item_n on item (n);
    create index item_half on item ((n / 2)) where n % 2 = 0;
    create table ledger (seq int primary key, ticket int not null unique);
    create table document (seq int primary key, body text not null);
    create sequence ticket;
    insert into item select i, 0, repeat('n', i) from generate_series(1, 30) as i;";

/// The client's knowledge of its transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The last transaction whose commit was acknowledged. All before it were acknowledged, too, or
    /// failed.
    acknowledged: i32,
    /// The last transaction whose commit was sent.
    sent: i32,
}

/// Makes the tables.
pub(crate) fn prepare(client: &mut Client) {
    client.batch_execute(TABLES).expect("the tables are new");
}

/// Works through up to `count` more transactions. Ends early when the connection breaks; a
/// statement that fails otherwise is rolled back, and its transaction tried again.
///
/// # Panics
/// When a statement fails with an error that no fault explains.
pub(crate) fn work(client: &mut Client, count: i32, known: &mut Known, random: &mut Random) {
    if known.sent != known.acknowledged && learn(client, known).is_err() {
        return;
    }
    let end = known.sent + count;
    let mut failures = 0;
    while known.acknowledged < end && failures < 200 {
        match transaction(client, known, random) {
            Ok(()) => known.acknowledged = known.sent,
            Err(error) if client.is_closed() || error.is_closed() => return,
            Err(error) => {
                is_told(&error);
                failures += 1;
                if client.batch_execute("rollback").is_err() {
                    return;
                }
                // The commit failed, so the number may be used again.
                known.sent = known.acknowledged;
            }
        }
        if random.below(12) == 0 && maintain(client, random).is_err() && client.is_closed() {
            return;
        }
    }
}

fn transaction(
    client: &mut Client,
    known: &mut Known,
    random: &mut Random,
) -> Result<(), postgres::Error> {
    let seq = known.acknowledged + 1;
    let item = random.below(ITEMS) + 1;
    client.batch_execute("begin")?;
    if random.below(4) == 0 {
        client.batch_execute(
            "savepoint s; update item set n = n + 1000; delete from ledger; rollback to s",
        )?;
    }
    client.batch_execute(&format!(
        "insert into ledger values ({seq}, nextval('ticket'));
         update item set n = n + 1 where id = {item}"
    ))?;
    if random.below(3) == 0 {
        let length = 1 + random.below(12_000);
        // Hardly compressible, so that it is stored out of line.
        client.batch_execute(&format!(
            "insert into document select {seq},
                 left((select string_agg(md5(i::text || {seq}), '') from generate_series(1, 400) as i), {length})"
        ))?;
    }
    if random.below(5) == 0 {
        let (low, note) = (random.below(ITEMS), random.below(900));
        client.batch_execute(&format!(
            "update item set note = repeat('m', {note}) where id between {low} and {low} + 9"
        ))?;
    }
    if random.below(20) == 0 {
        client.batch_execute(
            "drop table if exists side; create table side as select * from ledger;
             create index on side (ticket)",
        )?;
    }
    known.sent = seq;
    client.batch_execute("commit")
}

fn maintain(client: &mut Client, random: &mut Random) -> Result<(), postgres::Error> {
    client.batch_execute(match random.below(6) {
        0 => "vacuum item",
        1 => "vacuum",
        2 => "drop index if exists item_more; create index item_more on item (note, n)",
        3 => "reindex index item_n",
        _ => "checkpoint",
    })
}

/// Requires that the client must expect this error of a failing system.
///
/// # Panics
/// When no fault explains the error.
fn is_told(error: &postgres::Error) {
    let told = [
        SqlState::IO_ERROR,
        SqlState::DISK_FULL,
        SqlState::OUT_OF_MEMORY,
        SqlState::INSUFFICIENT_RESOURCES,
        SqlState::UNDEFINED_FILE,
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
    ];
    let known = error.code().is_some_and(|code| told.contains(code));
    assert!(known, "an error that no fault explains: {error:?}");
}

/// Paths to the same rows: with scans of tables, and with indexes only.
const PATHS: [&str; 2] = [
    "set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; \
     set enable_seqscan = on",
    "set enable_indexscan = on; set enable_indexonlyscan = on; set enable_bitmapscan = on; \
     set enable_seqscan = off",
];

/// Questions whose answers do not depend on the path.
const QUESTIONS: [&str; 8] = [
    "select count(*), max(seq) from ledger where seq > 0",
    "select count(*) from ledger where ticket > 0",
    "select sum(n) from item where n >= 0",
    "select count(*) from item where n / 2 >= 0 and n % 2 = 0",
    "select md5(string_agg(id || ':' || n || ':' || note, ',' order by id)) from item where id > 0",
    "select count(*), md5(string_agg(body, '' order by seq)) from document where seq > 0",
    "select count(*) from pg_class where relname in ('item', 'ledger', 'document', 'ticket')",
    "select count(*) from generate_series(1, (select max(seq) from ledger)) as i \
     where exists (select from ledger where seq = i)",
];

/// An answer, or the SQLSTATE of the error instead of it.
pub(crate) type Answer = Result<String, String>;

fn ask(client: &mut Client, sql: &str) -> Answer {
    use postgres::SimpleQueryMessage::Row;
    match client.simple_query(sql) {
        Ok(messages) => {
            let mut text = String::new();
            for message in messages {
                if let Row(row) = message {
                    let values = (0..row.len()).map(|column| row.get(column).unwrap_or("null"));
                    text.push_str(&values.collect::<Vec<_>>().join("|"));
                    text.push(';');
                }
            }
            Ok(text)
        }
        Err(error) => match error.code() {
            Some(code) => Err(code.code().to_owned()),
            None => Err(format!("no answer: {error}")),
        },
    }
}

/// Returns the answers to all questions on every path, each with its question.
pub(crate) fn answers(client: &mut Client) -> Vec<(String, Answer)> {
    answers_to(client, &QUESTIONS)
}

/// Returns the answers to these questions on every path.
pub(crate) fn answers_to(client: &mut Client, questions: &[&str]) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    for path in PATHS {
        let set = ask(client, path);
        for question in questions {
            let answer = set.clone().and_then(|_| ask(client, question));
            answers.push((format!("{path}\n{question}"), answer));
        }
    }
    answers
}

/// Requires that everything acknowledged is there, nothing of a failed transaction is, and all
/// paths agree.
///
/// # Panics
/// When a requirement is not met, or a statement fails.
pub(crate) fn verify(client: &mut Client, known: Known) {
    let answers = answers(client);
    let (scans, indexes) = answers.split_at(QUESTIONS.len());
    for ((question, scanned), (_, found)) in scans.iter().zip(indexes) {
        assert!(scanned.is_ok(), "{question}: {scanned:?}");
        assert_eq!(scanned, found, "{question}");
    }
    let answer = |number: usize| scans[number].1.clone().unwrap_or_default();
    let rows = answer(2).trim_end_matches(';').to_owned();
    let last: i32 = rows.parse().expect("a sum");
    let expected = known.acknowledged..=known.sent;
    assert!(expected.contains(&last), "{known:?}, but the items say {last}");
    let line = if last == 0 { "0|null;".to_owned() } else { format!("{last}|{last};") };
    assert_eq!(answer(0), line, "{known:?}: a gap, or another sum than the items'");
    assert_eq!(answer(1), format!("{last};"));
    assert_eq!(answer(6), "4;");
}

/// Finds out whether a transaction committed whose commit was sent and never answered.
///
/// # Errors
/// The SQLSTATE when the database does not answer, either.
///
/// # Panics
/// When an acknowledged transaction is not there.
pub(crate) fn learn(client: &mut Client, known: &mut Known) -> Result<(), String> {
    let last = ask(client, "select coalesce(max(seq), 0) from ledger where seq > 0")?;
    let last: i32 = last.trim_end_matches(';').parse().expect("a number");
    assert!((known.acknowledged..=known.sent).contains(&last), "{known:?}, found {last}");
    *known = Known { acknowledged: last, sent: last };
    Ok(())
}
