//! The anomalies by their names in the literature, as the Hermitage project has them for many
//! databases.
//!
//! Each level must allow here exactly what it allows in PostgreSQL.

use std::thread::JoinHandle;

use postgres::Client;
use support::{Server, TempDir};

use super::{blocked, server, sqlstate};

const LEVELS: [&str; 2] = ["read committed", "repeatable read"];

/// A session whose statement waits, with the outcome of the statement: nothing, or the SQLSTATE.
type Waiting = JoinHandle<(Client, Result<(), String>)>;

/// Three transactions of one level, over the rows 1 = 10 and 2 = 20.
struct Play {
    _dir: TempDir,
    server: Server,
    /// The clients; `None` while a client's statement waits.
    clients: Vec<Option<Client>>,
    waiting: Vec<Option<Waiting>>,
    level: &'static str,
}

impl Play {
    fn new(level: &'static str) -> Self {
        let (dir, server) = server(&format!("hermitage-{}", level.replace(' ', "-")));
        let clients = (0..3).map(|_| Some(server.client())).collect();
        let waiting = (0..3).map(|_| None).collect();
        Self { _dir: dir, server, clients, waiting, level }
    }

    /// Begins the transactions again, over the same rows.
    fn act(&mut self) {
        let level = self.level;
        for number in 1..=3 {
            assert_eq!(self.run(number, "rollback"), "");
        }
        let rows = "truncate t; insert into t values (1, 10), (2, 20)";
        assert_eq!(self.run(1, rows), "");
        for number in 1..=3 {
            assert_eq!(self.run(number, &format!("begin isolation level {level}")), "");
        }
    }

    /// Returns the rows that a new client sees afterwards.
    fn left(&mut self) -> String {
        self.server.client().simple_query(READ).map_or_else(|error| sqlstate(&error), shown)
    }

    /// Runs a statement. Returns its rows as `id=v`, or the SQLSTATE.
    fn run(&mut self, number: usize, sql: &str) -> String {
        let client = self.clients[number - 1].as_mut().expect("it does not wait");
        client.simple_query(sql).map_or_else(|error| sqlstate(&error), shown)
    }

    /// Runs a statement that waits for another transaction.
    fn waits(&mut self, number: usize, sql: &str) {
        let client = self.clients[number - 1].take().expect("it does not wait");
        self.waiting[number - 1] = Some(blocked(client, &self.server, sql));
    }

    /// Returns the outcome of the statement that waited: nothing, or the SQLSTATE.
    fn goes_on(&mut self, number: usize) -> String {
        let waited = self.waiting[number - 1].take().expect("it waits").join();
        let (client, outcome) = waited.expect("the session goes on");
        self.clients[number - 1] = Some(client);
        outcome.err().unwrap_or_default()
    }
}

const READ: &str = "select id, v from t order by id";

fn shown(messages: Vec<postgres::SimpleQueryMessage>) -> String {
    let rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => {
            Some(format!("{}={}", row.get(0).unwrap_or_default(), row.get(1).unwrap_or_default()))
        }
        _ => None,
    });
    rows.collect::<Vec<_>>().join(" ")
}

/// Plays `story` at each level, and passes whether the level is REPEATABLE READ.
fn at_each_level(name: &str, story: impl Fn(&mut Play, bool)) {
    for level in LEVELS {
        let mut play = Play::new(level);
        play.act();
        println!("{name} at {level}");
        story(&mut play, level == "repeatable read");
    }
}

/// Chooses the expected answer by the level.
fn either(
    repeatable: bool,
    at_repeatable: &'static str,
    at_committed: &'static str,
) -> &'static str {
    if repeatable { at_repeatable } else { at_committed }
}

const CONFLICT: &str = "40001";

#[test]
fn g0_dirty_writes_do_not_happen() {
    at_each_level("G0", |play, repeatable| {
        play.run(1, "update t set v = 11 where id = 1");
        play.waits(2, "update t set v = 12 where id = 1");
        play.run(1, "update t set v = 21 where id = 2");
        play.run(1, "commit");
        assert_eq!(play.goes_on(2), either(repeatable, CONFLICT, ""));
        assert_eq!(play.run(1, READ), "1=11 2=21");
        play.run(2, "update t set v = 22 where id = 2");
        play.run(2, "commit");
        assert_eq!(play.left(), either(repeatable, "1=11 2=21", "1=12 2=22"));
    });
}

#[test]
fn g1a_reads_of_what_is_rolled_back_do_not_happen() {
    at_each_level("G1a", |play, _| {
        play.run(1, "update t set v = 101 where id = 1");
        assert_eq!(play.run(2, READ), "1=10 2=20");
        play.run(1, "rollback");
        assert_eq!(play.run(2, READ), "1=10 2=20");
    });
}

#[test]
fn g1b_reads_of_what_is_changed_again_do_not_happen() {
    at_each_level("G1b", |play, repeatable| {
        play.run(1, "update t set v = 101 where id = 1");
        assert_eq!(play.run(2, READ), "1=10 2=20");
        play.run(1, "update t set v = 11 where id = 1");
        play.run(1, "commit");
        assert_eq!(play.run(2, READ), either(repeatable, "1=10 2=20", "1=11 2=20"));
    });
}

#[test]
fn g1c_circles_of_reads_do_not_happen() {
    at_each_level("G1c", |play, _| {
        play.run(1, "update t set v = 11 where id = 1");
        play.run(2, "update t set v = 22 where id = 2");
        assert_eq!(play.run(1, "select id, v from t where id = 2"), "2=20");
        assert_eq!(play.run(2, "select id, v from t where id = 1"), "1=10");
        play.run(1, "commit");
        play.run(2, "commit");
        assert_eq!(play.left(), "1=11 2=22");
    });
}

#[test]
fn otv_a_transaction_that_was_seen_does_not_vanish() {
    at_each_level("OTV", |play, repeatable| {
        play.run(1, "update t set v = 11 where id = 1");
        play.run(1, "update t set v = 19 where id = 2");
        play.waits(2, "update t set v = 12 where id = 1");
        play.run(1, "commit");
        assert_eq!(play.goes_on(2), either(repeatable, CONFLICT, ""));
        assert_eq!(play.run(3, READ), "1=11 2=19");
        play.run(2, "update t set v = 18 where id = 2");
        assert_eq!(play.run(3, READ), "1=11 2=19");
        play.run(2, "commit");
        assert_eq!(play.run(3, READ), either(repeatable, "1=11 2=19", "1=12 2=18"));
    });
}

#[test]
fn pmp_predicates_are_read_again_at_read_committed_only() {
    at_each_level("PMP", |play, repeatable| {
        assert_eq!(play.run(1, "select id, v from t where v = 30"), "");
        play.run(2, "insert into t values (3, 30)");
        play.run(2, "commit");
        let third = "select id, v from t where v % 3 = 0";
        assert_eq!(play.run(1, third), either(repeatable, "", "3=30"));
    });
    at_each_level("PMP of writes", |play, repeatable| {
        play.run(1, "update t set v = v + 10");
        // The snapshot is from before. Otherwise the statement would see the row that becomes 20.
        assert_eq!(play.run(2, "select id, v from t where v = 20"), "2=20");
        play.waits(2, "delete from t where v = 20");
        play.run(1, "commit");
        assert_eq!(play.goes_on(2), either(repeatable, CONFLICT, ""));
        play.run(2, "commit");
        // At READ COMMITTED the row that was 20 is checked again, and the other row is not.
        assert_eq!(play.left(), "1=20 2=30");
    });
}

#[test]
fn p4_updates_are_lost_at_read_committed_only() {
    at_each_level("P4", |play, repeatable| {
        assert_eq!(play.run(1, READ), "1=10 2=20");
        assert_eq!(play.run(2, READ), "1=10 2=20");
        play.run(1, "update t set v = 11 where id = 1");
        play.waits(2, "update t set v = 12 where id = 1");
        play.run(1, "commit");
        assert_eq!(play.goes_on(2), either(repeatable, CONFLICT, ""));
        play.run(2, "commit");
        assert_eq!(play.left(), either(repeatable, "1=11 2=20", "1=12 2=20"));
    });
}

#[test]
fn g_single_skewed_reads_happen_at_read_committed_only() {
    let both = "update t set v = 12 where id = 1; update t set v = 18 where id = 2; commit";
    at_each_level("G-single", |play, repeatable| {
        assert_eq!(play.run(1, "select id, v from t where id = 1"), "1=10");
        play.run(2, both);
        let second = "select id, v from t where id = 2";
        assert_eq!(play.run(1, second), either(repeatable, "2=20", "2=18"));
    });
    at_each_level("G-single of predicates", |play, repeatable| {
        assert_eq!(play.run(1, "select id, v from t where v % 5 = 0 order by id"), "1=10 2=20");
        play.run(2, "update t set v = 12 where v = 10; commit");
        let third = "select id, v from t where v % 3 = 0";
        assert_eq!(play.run(1, third), either(repeatable, "", "1=12"));
    });
    at_each_level("G-single of writes", |play, repeatable| {
        assert_eq!(play.run(1, "select id, v from t where id = 1"), "1=10");
        play.run(2, both);
        assert_eq!(play.run(1, "delete from t where v = 20"), either(repeatable, CONFLICT, ""));
        play.run(1, "commit");
        assert_eq!(play.left(), "1=12 2=18");
    });
}

/// Only SERIALIZABLE, which is refused here, forbids these two.
#[test]
fn g2_skewed_writes_happen_at_both_levels() {
    at_each_level("G2-item", |play, _| {
        assert_eq!(play.run(1, READ), "1=10 2=20");
        assert_eq!(play.run(2, READ), "1=10 2=20");
        play.run(1, "update t set v = 11 where id = 1");
        play.run(2, "update t set v = 21 where id = 2");
        play.run(1, "commit");
        assert_eq!(play.run(2, "commit"), "");
        assert_eq!(play.left(), "1=11 2=21");
    });
    at_each_level("G2", |play, _| {
        let third = "select id, v from t where v % 3 = 0 order by id";
        assert_eq!(play.run(1, third), "");
        assert_eq!(play.run(2, third), "");
        play.run(1, "insert into t values (3, 30)");
        play.run(2, "insert into t values (4, 42)");
        play.run(1, "commit");
        assert_eq!(play.run(2, "commit"), "");
        assert_eq!(play.run(3, third), "3=30 4=42");
    });
}
