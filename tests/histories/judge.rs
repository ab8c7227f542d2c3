//! The judge of histories: it finds what an isolation level forbids.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A list.
pub(crate) type Key = u32;
/// An element; every element has another number.
pub(crate) type Value = u32;

/// The promise of an isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// No cycle of dependencies between commits (G0, G1).
    ReadCommitted,
    /// Snapshot isolation. Each snapshot has every commit that was acknowledged before it (no
    /// G-single).
    RepeatableRead,
}

/// The operations of a transaction, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Append(Key, Value),
    Read(Key, Vec<Value>),
}

/// The client's knowledge of its transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Aborted,
    /// The connection broke after the commit had been sent.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// The session; its transactions follow each other.
    pub(crate) session: u64,
    /// Moments on one clock for all: before the first message was sent, and after the last answer
    /// came.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) outcome: Outcome,
    pub(crate) operations: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    fn appends(&self) -> impl Iterator<Item = (Key, Value)> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Append(key, value) => Some((*key, *value)),
            Operation::Read(..) => None,
        })
    }
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// It wrote the element before.
    Wrote,
    /// It wrote an element that the other read.
    WasRead,
    /// It was acknowledged before the other began.
    Acknowledged,
    /// It read a list to which the other appended next, after a transaction that it depends on.
    ReadBefore,
}

/// The graph: for each transaction, the transactions that come after it.
type Graph = Vec<BTreeMap<usize, Edge>>;

/// Returns the faults of a history whose lists are these in the end; empty if the history is right.
pub(crate) fn judge(
    history: &[Transaction],
    lists: &BTreeMap<Key, Vec<Value>>,
    level: Level,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut writers: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, one) in history.iter().enumerate() {
        writers.extend(one.appends().map(|(_, value)| (value, at)));
    }
    let there: BTreeSet<Value> = lists.values().flatten().copied().collect();
    if there.len() != lists.values().map(Vec::len).sum::<usize>() {
        found.push("an element is there twice".to_owned());
    }
    for value in &there {
        match writers.get(value).map(|writer| &history[*writer]) {
            None => found.push(format!("nobody appended {value}")),
            Some(one) if one.outcome == Outcome::Aborted => {
                found.push(format!("{value} of an aborted transaction is there: {one:?}"));
            }
            Some(_) => {}
        }
    }
    for one in history {
        let (kept, lost): (Vec<_>, Vec<_>) =
            one.appends().partition(|(_, value)| there.contains(value));
        if one.is_committed() && !lost.is_empty() {
            found.push(format!("{lost:?} of a committed transaction is lost: {one:?}"));
        } else if !kept.is_empty() && !lost.is_empty() {
            found.push(format!("half of a transaction is there, not {lost:?}: {one:?}"));
        }
        reads(history, one, lists, &writers, &mut found);
    }
    if found.is_empty() {
        let graph = graph(history, lists, &writers, level);
        if let Some(cycle) = cycle(&graph) {
            let steps: Vec<_> = cycle
                .iter()
                .map(|(at, edge)| format!("{:?} comes, for {edge:?}, before", history[*at]))
                .collect();
            found.push(format!("a cycle: {steps:#?}"));
        }
    }
    found
}

/// Requires that each read gives an earlier state of the list, and behind it the transaction's own
/// elements.
fn reads(
    history: &[Transaction],
    one: &Transaction,
    lists: &BTreeMap<Key, Vec<Value>>,
    writers: &BTreeMap<Value, usize>,
    found: &mut Vec<String>,
) {
    let mut own: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for operation in &one.operations {
        match operation {
            Operation::Append(key, value) => own.entry(*key).or_default().push(*value),
            Operation::Read(key, values) => {
                let own = own.get(key).map_or(&[][..], Vec::as_slice);
                let Some(others) = values.strip_suffix(own) else {
                    found.push(format!("{values:?} of list {key} lacks {own:?}: {one:?}"));
                    continue;
                };
                if !lists[key].starts_with(others) {
                    found.push(format!("list {key} never was {others:?}: {one:?}"));
                }
                let last = others.last().and_then(|last| Some((last, writers.get(last)?)));
                let all = last.map(|(last, writer)| {
                    let its = history[*writer].appends().filter(|(other, _)| other == key);
                    (last, its.last())
                });
                if let Some((last, Some((_, end)))) = all
                    && *last != end
                {
                    found.push(format!("{last} was read between appends of {end}: {one:?}"));
                }
            }
        }
    }
}

fn graph(
    history: &[Transaction],
    lists: &BTreeMap<Key, Vec<Value>>,
    writers: &BTreeMap<Value, usize>,
    level: Level,
) -> Graph {
    let mut depends: Graph = vec![BTreeMap::new(); history.len()];
    let mut reads_before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); history.len()];
    let there = |at: usize| {
        let one = &history[at];
        let kept = |(key, value)| lists[&key].contains(&value);
        one.is_committed() || (one.outcome == Outcome::Unknown && one.appends().any(kept))
    };
    for list in lists.values() {
        for two in list.windows(2) {
            let (first, second) = (writers[&two[0]], writers[&two[1]]);
            if first != second {
                depends[first].insert(second, Edge::Wrote);
            }
        }
    }
    for (at, one) in history.iter().enumerate().filter(|(at, _)| there(*at)) {
        let mut own = BTreeSet::new();
        for operation in &one.operations {
            match operation {
                Operation::Append(_, value) => _ = own.insert(*value),
                Operation::Read(key, values) => {
                    let others = values.iter().filter(|value| !own.contains(value)).count();
                    let list = &lists[key];
                    let writer = |place: usize| list.get(place).map(|value| writers[value]);
                    if let Some(before) = others.checked_sub(1).and_then(writer)
                        && before != at
                    {
                        depends[before].entry(at).or_insert(Edge::WasRead);
                    }
                    if let Some(after) = writer(others).filter(|after| *after != at) {
                        reads_before[at].insert(after);
                    }
                }
            }
        }
    }
    // One edge to the first transaction of each session that began later is enough: the others
    // follow from that.
    let mut sessions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for at in (0..history.len()).filter(|at| there(*at)) {
        sessions.entry(history[at].session).or_default().push(at);
    }
    for at in (0..history.len()).filter(|at| history[*at].is_committed()) {
        for session in sessions.values() {
            let later = session.iter().find(|other| history[**other].began > history[at].ended);
            if let Some(later) = later {
                depends[at].entry(*later).or_insert(Edge::Acknowledged);
            }
        }
    }
    if level == Level::RepeatableRead {
        // Two such edges in a row are allowed (write skew): only one behind a dependency counts.
        let behind: Vec<Vec<usize>> = depends
            .iter()
            .map(|after| after.keys().flat_map(|middle| reads_before[*middle].clone()).collect())
            .collect();
        for (at, after) in behind.into_iter().enumerate() {
            for last in after {
                depends[at].entry(last).or_insert(Edge::ReadBefore);
            }
        }
    }
    depends
}

/// Returns a shortest way from a transaction to itself, if there is one.
fn cycle(graph: &Graph) -> Option<Vec<(usize, Edge)>> {
    (0..graph.len()).filter_map(|start| way_back(graph, start)).min_by_key(Vec::len)
}

fn way_back(graph: &Graph, start: usize) -> Option<Vec<(usize, Edge)>> {
    let mut came_from: BTreeMap<usize, (usize, Edge)> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    // Ends: each transaction is entered once.
    while let Some(at) = next.pop_front() {
        for (&after, &edge) in &graph[at] {
            if after == start {
                let mut way = vec![(at, edge)];
                let mut here = at;
                while let Some((before, edge)) = came_from.get(&here).filter(|_| here != start) {
                    way.push((*before, *edge));
                    here = *before;
                }
                way.reverse();
                return Some(way);
            }
            if let std::collections::btree_map::Entry::Vacant(free) = came_from.entry(after) {
                free.insert((at, edge));
                next.push_back(after);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Operation::{Append, Read};
    use super::*;

    /// Makes transactions of a session each; all begin before one ends.
    fn beside(all: &[(Outcome, &[Operation])]) -> Vec<Transaction> {
        let one = |(session, (outcome, operations)): (u64, &(Outcome, &[Operation]))| Transaction {
            session,
            began: session,
            ended: 100 + session,
            outcome: *outcome,
            operations: operations.to_vec(),
        };
        (0..).zip(all).map(one).collect()
    }

    fn found(all: &[(Outcome, &[Operation])], lists: &[&[Value]], level: Level) -> bool {
        let lists = (1..).zip(lists).map(|(key, list)| (key, list.to_vec())).collect();
        !judge(&beside(all), &lists, level).is_empty()
    }

    const LEVELS: [Level; 2] = [Level::ReadCommitted, Level::RepeatableRead];
    const DONE: Outcome = Outcome::Committed;

    #[test]
    fn anomalies_of_every_level_are_found() {
        for level in LEVELS {
            let right: &[(_, &[_])] = &[
                (DONE, &[Append(1, 10), Append(2, 11)]),
                (DONE, &[Read(1, vec![10]), Append(1, 20)]),
            ];
            assert!(!found(right, &[&[10, 20], &[11]], level));
            // Elements that are lost, invented, twice, or half of an unknown transaction.
            assert!(found(right, &[&[10], &[11]], level));
            assert!(found(right, &[&[10, 20], &[11, 12]], level));
            assert!(found(right, &[&[10, 20, 20], &[11]], level));
            let unknown: &[(_, &[_])] = &[(Outcome::Unknown, &[Append(1, 10), Append(2, 11)])];
            assert!(!found(unknown, &[&[], &[]], level));
            assert!(found(unknown, &[&[10], &[]], level));
            // G0: the orders of two lists contradict each other.
            let crossed: &[(_, &[_])] =
                &[(DONE, &[Append(1, 10), Append(2, 11)]), (DONE, &[Append(1, 20), Append(2, 21)])];
            assert!(!found(crossed, &[&[10, 20], &[11, 21]], level));
            assert!(found(crossed, &[&[10, 20], &[21, 11]], level));
            // G1a, G1b, G1c.
            let aborted: &[(_, &[_])] =
                &[(Outcome::Aborted, &[Append(1, 10)]), (DONE, &[Read(1, vec![10])])];
            assert!(found(aborted, &[&[]], level));
            let between: &[(_, &[_])] =
                &[(DONE, &[Append(1, 10), Append(1, 11)]), (DONE, &[Read(1, vec![10])])];
            assert!(found(between, &[&[10, 11]], level));
            let round: &[(_, &[_])] = &[
                (DONE, &[Append(1, 10), Read(2, vec![20])]),
                (DONE, &[Append(2, 20), Read(1, vec![10])]),
            ];
            assert!(found(round, &[&[10], &[20]], level));
        }
    }

    #[test]
    fn a_snapshot_is_one_moment() {
        // Read skew, and an update that is lost: only the stronger level forbids them.
        let skewed: &[(_, &[_])] = &[
            (DONE, &[Append(1, 10), Append(2, 11)]),
            (DONE, &[Read(1, vec![]), Read(2, vec![11])]),
        ];
        let lost: &[(_, &[_])] =
            &[(DONE, &[Read(1, vec![]), Append(1, 10)]), (DONE, &[Read(1, vec![]), Append(1, 20)])];
        for (history, lists) in [(skewed, [&[10][..], &[11]]), (lost, [&[10, 20][..], &[]])] {
            assert!(!found(history, &lists, Level::ReadCommitted));
            assert!(found(history, &lists, Level::RepeatableRead));
        }
        // Write skew is allowed.
        let skew: &[(_, &[_])] =
            &[(DONE, &[Read(1, vec![]), Append(2, 20)]), (DONE, &[Read(2, vec![]), Append(1, 10)])];
        assert!(!found(skew, &[&[10], &[20]], Level::RepeatableRead));
    }

    #[test]
    fn what_was_acknowledged_is_seen() {
        let mut history = beside(&[(DONE, &[Append(1, 10)]), (DONE, &[Read(1, vec![])])]);
        let lists = [(1, vec![10])].into();
        assert!(judge(&history, &lists, Level::RepeatableRead).is_empty());
        (history[1].began, history[1].ended) = (200, 201);
        assert!(!judge(&history, &lists, Level::RepeatableRead).is_empty());
    }
}
