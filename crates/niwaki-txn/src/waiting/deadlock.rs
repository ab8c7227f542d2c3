//! Deadlocks: cycles in the graph of waits.
//!
//! One session looks at a time, with the whole lock table locked, so the queues stand still. Waits
//! for transactions do not pass through the table. A cycle is therefore read twice, and counts only
//! if every wait in it is the same wait both times. Then all of the waits existed at one moment,
//! and since each waits for the next, none can end.
//!
//! The session that looks also cancels the holders of its awaited lock that give way: autovacuum's
//! sessions.
//!
//! Waiting behind another *waiter* is a soft edge: the queue can be put into another order. If
//! another order removes the cycle, no session becomes the victim.
//!
//! **The victim** is the session that looks first, as in PostgreSQL: `deadlock_timeout` of the
//! sessions decides. In PostgreSQL a session looks once in a wait. Here it looks again and again,
//! but then leaves a cycle to sessions on it that have not looked yet. Of two sessions that hold
//! one lock and both want more of it, the second one looks at once.
//!
//! An interrupted wait is part of no cycle, although its session may not have woken: one victim is
//! enough.

use std::fmt::Write as _;
use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::MutexGuard;
use niwaki_storage::Xid;

use crate::error::{Error, Result};
use crate::handle::lock_entry::is;
use crate::handle::lock_table::{LockManager, Partition};
use crate::handle::registry::Registry;
use crate::handle::session::{SessionControl, WaitInfo};
use crate::locks::key::{LockKey, describe};
use crate::locks::mode::{Mode, mode_name};

/// The greatest number of waiters that the search moves before it chooses a victim. It lets as many
/// readers wait behind one writer. More moves would take long while the lock table is locked.
const MOVES_MAX: usize = 100;

/// The graph of waits between sessions at this moment.
pub(crate) struct Graph<'a> {
    locks: &'a LockManager,
    sessions: &'a [Arc<SessionControl>],
    /// The index of each session in `sessions`.
    indexes: HashMap<*const SessionControl, usize>,
    /// The sessions of the awaited transactions, as of the beginning of the search.
    owners: HashMap<Xid, usize>,
    partitions: Vec<MutexGuard<'a, Partition>>,
}

/// A wait for `to`. A wait is `soft` if `to` only stands ahead in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    soft: bool,
}

/// One wait of a cycle: `from` waits for the next link's `from`.
#[derive(Clone, Copy, Debug)]
struct Link {
    from: usize,
    edge: Edge,
    wait: u64,
}

/// A move of `waiter` to the place of `ahead`, which is ahead of it in its queue.
#[derive(Clone, Copy, Debug)]
struct Move {
    waiter: usize,
    ahead: usize,
    key: LockKey,
    from: usize,
    to: usize,
}

impl Move {
    fn undoes(&self, other: &Self) -> bool {
        self.waiter == other.ahead && self.ahead == other.waiter
    }
}

impl<'a> Graph<'a> {
    /// Builds the graph. The lock table stays locked until the graph is dropped.
    pub(crate) fn new(locks: &'a LockManager, sessions: &'a [Arc<SessionControl>]) -> Self {
        let indexes = sessions.iter().enumerate().map(|(at, session)| (Arc::as_ptr(session), at));
        let indexes: HashMap<*const SessionControl, usize> = indexes.collect();
        debug_assert_eq!(indexes.len(), sessions.len(), "a session is registered twice");
        let owners = Registry::owners(sessions);
        Self { locks, sessions, indexes, owners, partitions: locks.lock_all() }
    }

    fn index(&self, session: &SessionControl) -> Option<usize> {
        self.indexes.get(&std::ptr::from_ref(session)).copied()
    }

    /// Returns the session that runs the transaction. A wait that began after the search may find
    /// none: its own session looks later.
    fn owner(&self, xid: Xid) -> Option<usize> {
        let owner = self.owners.get(&xid).copied();
        // The transaction may have ended since.
        owner.filter(|at| self.sessions[*at].owns(xid))
    }

    /// Returns the sessions for which the session waits.
    pub(crate) fn edges(&self, from: usize) -> Vec<Edge> {
        let session = &self.sessions[from];
        let Some(wait) = session.current_wait() else { return Vec::new() };
        if let LockKey::Transaction(xid) = wait.key {
            let owner = self.owner(xid).filter(|owner| *owner != from);
            return owner.map(|to| Edge { to, soft: false }).into_iter().collect();
        }
        let partition = &self.partitions[self.locks.partition_of(&wait.key)];
        let Some(entry) = partition.entries.get(&wait.key) else { return Vec::new() };
        let Some(place) = entry.place_of(session) else {
            let holders = entry.holder_waits_of(session).flat_map(|waiter| &waiter.holders);
            return holders
                .filter_map(|holder| self.index(holder))
                .map(|to| Edge { to, soft: false })
                .collect();
        };
        let excludes = entry.waiters[place].mode.excludes;
        let holders = entry
            .granted
            .iter()
            .filter(|grant| grant.modes & excludes != 0 && !is(&grant.session, session))
            .map(|grant| (&grant.session, false));
        let ahead = entry
            .waiters
            .iter()
            .take(place)
            .filter(|waiter| waiter.mode.bit & excludes != 0)
            .map(|waiter| (&waiter.session, true));
        holders
            .chain(ahead)
            .filter_map(|(session, soft)| self.index(session).map(|to| Edge { to, soft }))
            .collect()
    }

    /// Cancels the holders of the session's awaited lock that give way. They cannot release the
    /// lock before the graph is dropped, so the cancel hits the work for which they hold the lock.
    fn cancel_holders_that_give_way(&self, from: usize) {
        let wait = self.sessions[from].current_wait();
        if wait.is_none_or(|wait| matches!(wait.key, LockKey::Transaction(_))) {
            return;
        }
        for edge in self.edges(from) {
            let holder = &self.sessions[edge.to];
            if !edge.soft && holder.gives_way() && !seeded_bug!("nobody_gives_way") {
                holder.cancel();
            }
        }
    }

    /// Returns the wait of a session, unless the wait is about to end: granted, or interrupted.
    fn wait(&self, of: usize) -> Option<WaitInfo> {
        let session = &self.sessions[of];
        session.current_wait().filter(|_| !session.is_interrupted())
    }

    /// Returns a cycle through `start`, as the waits on it.
    fn cycle(&self, start: usize) -> Option<Vec<Link>> {
        let mut visited = vec![false; self.sessions.len()];
        let mut path = Vec::new();
        let found = self.search(start, start, &mut visited, &mut path);
        debug_assert_eq!(found, !path.is_empty(), "the search left {} links", path.len());
        debug_assert!(path.len() <= self.sessions.len(), "a session is twice on {path:?}");
        debug_assert!(
            path.windows(2).all(|links| links[0].edge.to == links[1].from),
            "a wait does not lead to the next one: {path:?}"
        );
        debug_assert!(
            path.last().is_none_or(|last| last.edge.to == start),
            "the last wait does not lead back to {start}: {path:?}"
        );
        found.then_some(path)
    }

    fn search(
        &self,
        start: usize,
        from: usize,
        visited: &mut [bool],
        path: &mut Vec<Link>,
    ) -> bool {
        // Ends: every session is visited once, and the depth is at most their number.
        visited[from] = true;
        let Some(wait) = self.wait(from) else { return false };
        for edge in self.edges(from) {
            debug_assert_ne!(edge.to, from, "a session waits for itself");
            path.push(Link { from, edge, wait: wait.number });
            let found =
                edge.to == start || !visited[edge.to] && self.search(start, edge.to, visited, path);
            if found {
                return true;
            }
            path.pop();
        }
        false
    }

    /// Returns whether every wait of the cycle is still the same.
    fn stands(&self, cycle: &[Link]) -> bool {
        cycle.iter().all(|link| self.wait(link.from).is_some_and(|wait| wait.number == link.wait))
    }

    /// Returns whether all sessions of the cycle have looked for deadlocks in these waits.
    fn all_have_checked(&self, cycle: &[Link]) -> bool {
        cycle.iter().all(|link| self.wait(link.from).is_some_and(|wait| wait.checked))
    }

    /// Removes the cycles through `start` by moving waiters ahead in their queues. Returns false
    /// when that is impossible; then the queues are as before. The session that looks moves last,
    /// if no other move helps, as in PostgreSQL. The function adds to the `moves` made so far;
    /// `left` is the number of further moves that it may try.
    fn rearrange(&mut self, start: usize, left: &mut usize, moves: &mut Vec<Move>) -> bool {
        let Some(cycle) = self.cycle(start) else { return true };
        debug_assert!(cycle[0].from == start, "the cycle begins elsewhere: {cycle:?}");
        let before = moves.len();
        // Ends: each turn takes one of the moves that are `left`, which also bounds the recursion.
        for link in cycle.iter().rev().filter(|link| link.edge.soft) {
            let next = self.places(link).filter(|next| !moves.iter().any(|it| next.undoes(it)));
            let Some(next) = next.filter(|_| *left > 0) else { continue };
            *left -= 1;
            self.move_waiter(&next.key, next.from, next.to);
            moves.push(next);
            // The move must not create a cycle for the other waiters in this queue.
            if self.rearrange(start, left, moves) && self.queue_is_free_of_cycles(&next.key) {
                return true;
            }
            // Undoes the moves in other queues too: they helped only together with this one.
            for back in moves.drain(before..).rev() {
                self.move_waiter(&back.key, back.to, back.from);
            }
        }
        false
    }

    /// Returns the move that removes a wait behind another waiter.
    fn places(&self, link: &Link) -> Option<Move> {
        let session = &self.sessions[link.from];
        let key = session.current_wait()?.key;
        let entry = self.partitions[self.locks.partition_of(&key)].entries.get(&key)?;
        let to = entry.place_of(&self.sessions[link.edge.to])?;
        let from = entry.place_of(session)?;
        debug_assert!(to < from, "a soft edge leads to a waiter behind: {link:?}");
        Some(Move { waiter: link.from, ahead: link.edge.to, key, from, to })
    }

    fn move_waiter(&mut self, key: &LockKey, from: usize, to: usize) {
        let partition = &mut self.partitions[self.locks.partition_of(key)];
        debug_assert!(
            partition.entries.get(key).is_some_and(|entry| from.max(to) < entry.waiters.len()),
            "the queue of {key:?} has no places {from} and {to}"
        );
        if let Some(entry) = partition.entries.get_mut(key)
            && let Some(waiter) = entry.waiters.remove(from)
        {
            entry.waiters.insert(to, waiter);
        }
    }

    fn queue_is_free_of_cycles(&self, key: &LockKey) -> bool {
        let partition = &self.partitions[self.locks.partition_of(key)];
        let Some(entry) = partition.entries.get(key) else { return true };
        entry.waiters.iter().all(|waiter| {
            self.index(&waiter.session).is_none_or(|index| self.cycle(index).is_none())
        })
    }

    /// Grants the locks that the new order allows.
    fn grant_all(&mut self) {
        for partition in &mut self.partitions {
            for entry in partition.entries.values_mut() {
                entry.grant_waiters();
            }
        }
    }

    /// Takes the session out of its queue, and grants locks to the others.
    fn abandon(&mut self, session: &SessionControl) {
        let Some(wait) = session.current_wait() else { return };
        let partition = &mut self.partitions[self.locks.partition_of(&wait.key)];
        if let Some(entry) = partition.entries.get_mut(&wait.key)
            && let Some(place) = entry.place_of(session)
        {
            entry.waiters.remove(place);
            entry.grant_waiters();
        }
    }

    /// Returns PostgreSQL's description of the cycle, one line per wait.
    fn describe(&self, cycle: &[Link]) -> String {
        let mut text = String::new();
        for link in cycle {
            let session = &self.sessions[link.from];
            let Some(wait) = session.current_wait() else { continue };
            let partition = &self.partitions[self.locks.partition_of(&wait.key)];
            let mode = partition.entries.get(&wait.key).and_then(|entry| {
                let queued = entry.place_of(session).map(|place| entry.waiters[place].mode);
                queued.or_else(|| entry.holder_waits_of(session).next().map(|waiter| waiter.mode))
            });
            let bit = mode.map_or(1, |mode: Mode| mode.bit);
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = write!(
                text,
                "Process {} waits for {} on {}; blocked by process {}.",
                session.backend(),
                mode_name(&wait.key, bit, false),
                describe(&wait.key),
                self.sessions[link.edge.to].backend(),
            );
        }
        text
    }
}

impl LockManager {
    /// Looks for a deadlock whose victim is `session`, which waits.
    ///
    /// # Errors
    /// [`Error::Deadlock`]: the session is the victim, and has left its queue.
    pub(crate) fn check_for_deadlock(&self, session: &SessionControl) -> Result<()> {
        let Some(detail) = self.find_deadlock(session) else { return Ok(()) };
        session.note_deadlock();
        Err(Error::Deadlock { detail })
    }

    /// Looks for a cycle of waits through `session`, which waits, and cancels the holders that give
    /// way to it. Reorders the queues to remove a soft cycle. Otherwise takes the session out of
    /// its queue and describes the cycle. `None`: no deadlock, or one that another session has to
    /// end.
    fn find_deadlock(&self, session: &SessionControl) -> Option<String> {
        // One search at a time: the next search sees that the victim no longer waits.
        let _detecting = self.detecting.lock();
        let sessions = self.registry.all();
        let mut graph = Graph::new(self, &sessions);
        let start = graph.index(session)?;
        graph.cancel_holders_that_give_way(start);
        let again = session.note_deadlock_check();
        let cycle = graph.cycle(start)?;
        if !graph.stands(&cycle) || again && !graph.all_have_checked(&cycle) {
            return None;
        }
        let soft = cycle.iter().any(|link| link.edge.soft);
        if soft && graph.rearrange(start, &mut { MOVES_MAX }, &mut Vec::new()) {
            graph.grant_all();
            return None;
        }
        // One of the cycle's waits may have been interrupted during the attempts to reorder.
        if !graph.stands(&cycle) {
            return None;
        }
        let detail = graph.describe(&cycle);
        graph.abandon(session);
        session.end_wait();
        Some(detail)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use niwaki_env::Env;
    use niwaki_storage::{Storage, StorageOptions};

    use super::*;
    use crate::{
        BeginOptions, TableId, TableLockMode, Transaction, TransactionManager, TxnOptions,
        WaitPolicy,
    };

    const MODE: TableLockMode = TableLockMode::Exclusive;

    fn manager() -> Arc<TransactionManager> {
        TransactionManager::new(Env::memory(), TxnOptions::default())
    }

    fn key(table: u64) -> LockKey {
        LockKey::Table(TableId(table))
    }

    /// Begins a transaction that holds a table.
    fn holder(manager: &Arc<TransactionManager>, table: u64) -> Transaction {
        let session = manager.register_session().unwrap();
        let holder = manager.begin(&session, BeginOptions::default()).unwrap();
        let policy = WaitPolicy::NoWait;
        manager.locks().acquire_table(&holder, TableId(table), MODE, policy).unwrap();
        holder
    }

    /// Puts the transaction into the queue of a table, as if its thread slept there.
    fn wait(transaction: &Transaction, table: u64) {
        wait_in(transaction, table, MODE);
    }

    fn wait_in(transaction: &Transaction, table: u64, mode: TableLockMode) {
        let session = transaction.session();
        session.prepare_wait(key(table));
        let mut partition = transaction.manager().locks().partition(&key(table)).lock();
        partition.entry(key(table)).enqueue(session, mode.into(), true);
    }

    /// Gives the transaction a table in a mode, as if the lock had been moved from the fast path.
    fn hold(transaction: &Transaction, table: u64, mode: TableLockMode) {
        let mut partition = transaction.manager().locks().partition(&key(table)).lock();
        partition.entry(key(table)).add_modes(transaction.session(), Mode::from(mode).bit);
    }

    /// Returns the backends of the waiters for a table, in order.
    fn queue(manager: &TransactionManager, table: u64) -> Vec<i32> {
        let partition = manager.locks().partition(&key(table)).lock();
        let entry = partition.entries.get(&key(table)).expect("an entry");
        entry.waiters.iter().map(|waiter| waiter.session.backend()).collect()
    }

    fn is_victim(transaction: &Transaction) -> bool {
        transaction.manager().locks().find_deadlock(transaction.session()).is_some()
    }

    #[test]
    fn who_looks_again_leaves_a_new_cycle_to_those_who_closed_it() {
        let manager = manager();
        let (first, second) = (holder(&manager, 1), holder(&manager, 2));
        wait(&first, 2);
        assert!(!is_victim(&first), "nobody waits for it");
        wait(&second, 1);
        assert!(!is_victim(&first), "the second one has not looked");
        assert!(is_victim(&second));
        assert!(!is_victim(&first));
    }

    #[test]
    fn a_cycle_that_no_wait_closed_is_found_by_who_looks_again() {
        let manager = manager();
        let (first, second) = (holder(&manager, 1), holder(&manager, 2));
        let third = holder(&manager, 3);
        wait(&first, 2);
        wait(&second, 3);
        assert!(!is_victim(&first) && !is_victim(&second));
        // As when a row moves and takes its locks along.
        let mut partition = manager.locks().partition(&key(3)).lock();
        partition.entry(key(3)).add_modes(first.session(), Mode::from(MODE).bit);
        drop(partition);
        assert!(is_victim(&first));
        assert!(!is_victim(&second) && !is_victim(&third));
    }

    #[test]
    fn a_wait_that_was_interrupted_is_part_of_no_cycle() {
        let manager = manager();
        let (first, second) = (holder(&manager, 1), holder(&manager, 2));
        wait(&first, 2);
        wait(&second, 1);
        second.session().cancel();
        assert!(!is_victim(&first), "the second one has not woken, and will fail");
        // Resets the cancel request.
        second.session().begin_statement(None);
        assert!(is_victim(&second));
    }

    /// Once, moves in a second queue were not undone. The waiter that was then first in that queue
    /// slept although no session was in its way.
    #[test]
    fn queues_that_no_order_mends_are_as_before() {
        use TableLockMode::{AccessExclusive, AccessShare, Share};
        let manager = manager();
        // Tables 1 to 4 belong to the cycles; the others are held and not asked for.
        let [start, first, second] = [11, 12, 13].map(|table| holder(&manager, table));
        let [ahead_of_first, ahead_of_second] = [14, 15].map(|table| holder(&manager, table));
        let (crossed, crossing) = (holder(&manager, 16), holder(&manager, 4));
        // start → first → ahead_of_first → start, and the same with the second one.
        for (waiter, ahead, table) in [(&first, &ahead_of_first, 2), (&second, &ahead_of_second, 3)]
        {
            hold(waiter, 1, Share);
            hold(&start, table, AccessShare);
            wait_in(ahead, table, AccessExclusive);
            wait_in(waiter, table, AccessShare);
        }
        wait(&start, 1);
        // Behind them in the first queue is a deadlock of two others, which no session has found
        // yet.
        hold(&crossed, 2, AccessShare);
        wait_in(&crossing, 2, AccessExclusive);
        wait(&crossed, 4);
        let backends = |all: &[&Transaction]| -> Vec<i32> {
            all.iter().map(|t| t.session().backend()).collect()
        };
        assert!(is_victim(&start));
        assert_eq!(queue(&manager, 2), backends(&[&ahead_of_first, &first, &crossing]));
        assert_eq!(queue(&manager, 3), backends(&[&ahead_of_second, &second]));
    }

    /// The search looks at all sessions once, not once for each wait. It still finds a session that
    /// several sessions wait for, by its own and by a subtransaction's number.
    #[test]
    fn waits_for_transactions_and_subtransactions_lead_to_who_runs_them() {
        let env = Env::memory();
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let managers = vec![Arc::clone(&manager) as _];
        let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
        manager.attach(&storage).unwrap();
        let [first, second, third] = [1, 2, 3].map(|table| holder(&manager, table));
        let idle: Vec<Transaction> = (4..40).map(|table| holder(&manager, table)).collect();
        let ids = |transaction: &Transaction| {
            let top = transaction.write_xid().unwrap();
            transaction.savepoint("s");
            [top, transaction.write_xid().unwrap()]
        };
        let [top, sub] = ids(&first);
        let [_, sub_of_second] = ids(&second);
        let [top_of_third, _] = ids(&third);
        idle.iter().for_each(|transaction| assert!(transaction.write_xid().is_ok()));
        second.session().prepare_wait(LockKey::Transaction(top));
        third.session().prepare_wait(LockKey::Transaction(sub));
        let blocking = |of: &Transaction| manager.locks().blocking_backends(of.session().backend());
        assert_eq!(blocking(&second), [first.session().backend()]);
        assert_eq!(blocking(&third), [first.session().backend()]);
        assert!(!is_victim(&second) && !is_victim(&third));
        first.session().prepare_wait(LockKey::Transaction(sub_of_second));
        assert!(is_victim(&first));
        assert!(!is_victim(&second), "the first one waits no more");
        first.session().prepare_wait(LockKey::Transaction(top_of_third));
        assert!(is_victim(&first));
        // No session runs a subtransaction that was rolled back.
        first.rollback_to("s").unwrap();
        assert!(blocking(&third).is_empty());
    }

    /// Once, the session that looked was the victim if more than eight waiters had to move.
    #[test]
    fn an_order_is_found_however_many_readers_wait_behind_a_writer() {
        use TableLockMode::{AccessExclusive, AccessShare, Share};
        let manager = manager();
        let (start, writer) = (holder(&manager, 11), holder(&manager, 12));
        let readers: Vec<Transaction> = (13..33).map(|table| holder(&manager, table)).collect();
        hold(&start, 2, AccessShare);
        wait_in(&writer, 2, AccessExclusive);
        for reader in &readers {
            hold(reader, 1, Share);
            wait_in(reader, 2, AccessShare);
        }
        wait(&start, 1);
        assert!(!is_victim(&start));
        assert_eq!(queue(&manager, 2), [writer.session().backend()]);
        assert!(readers.iter().all(|reader| reader.session().granted()));
    }
}
