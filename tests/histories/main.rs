//! Histories of many clients, with kills, held against the promises of each isolation level.
//!
//! Clients append numbers to lists and read lists ([`clients`]). The server is killed in between
//! and started again. All reads and writes of every transaction are judged afterwards ([`judge`]).
//! This is in the manner of Elle (Kingsbury, Alvaro: "Elle: inferring isolation anomalies from
//! experimental observations", VLDB 2020). A list shows the order in which its elements came, so
//! dependencies between transactions are known. A cycle of dependencies is an anomaly with a name.
//!
//! `NIWAKI_HISTORY_SEED` (1 unless given) draws the transactions, and `NIWAKI_HISTORY_ROUNDS` gives
//! the number of kills.

mod clients;
mod judge;

use judge::Level;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"))
}

fn keeps_its_promise(level: Level) {
    let (seed, rounds) = (number("NIWAKI_HISTORY_SEED", 1), number("NIWAKI_HISTORY_ROUNDS", 4));
    println!("NIWAKI_HISTORY_SEED={seed}, {rounds} rounds");
    let (history, lists) = clients::run(level, seed, rounds);
    let committed = history.iter().filter(|one| one.is_committed()).count();
    println!("{} transactions, {committed} acknowledged", history.len());
    assert!(committed > 100, "only {committed} transactions were acknowledged");
    let found = judge::judge(&history, &lists, level);
    assert!(found.is_empty(), "{level:?}: {found:#?}");
}

#[test]
fn read_committed_keeps_its_promise() {
    keeps_its_promise(Level::ReadCommitted);
}

#[test]
fn repeatable_read_keeps_its_promise() {
    keeps_its_promise(Level::RepeatableRead);
}
