//! Locks, as monitoring shows them.

use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::OffsetNumber;

use crate::handle::lock_table::LockManager;
use crate::locks::held::{TENTATIVE, WEAK_MODES, fast_table};
use crate::locks::key::{LockInfo, LockKey};
use crate::locks::mode::{bits, mode_name};
use crate::waiting::deadlock::Graph;

impl LockManager {
    /// Returns all locks held and waited for (`pg_locks`). The list is no picture of one moment:
    /// each part is read on its own.
    pub fn infos(&self) -> Vec<LockInfo> {
        self.list().collect()
    }

    /// Returns the same as [`LockManager::infos`], one line at a time. The locked rows of large
    /// tables fit in memory as bits, but not as lines.
    pub fn list(&self) -> impl Iterator<Item = LockInfo> + use<> {
        let sessions = self.registry.all();
        let mut infos = Vec::new();
        for session in &sessions {
            let backend = session.backend();
            for slot in &session.fast.0 {
                let word = slot.load(Ordering::Acquire);
                if word & TENTATIVE != 0 {
                    continue;
                }
                let key = LockKey::Table(fast_table(word));
                for bit in bits((word & WEAK_MODES) as u8) {
                    infos.push(LockInfo { fast_path: true, ..info(backend, key, bit, true) });
                }
            }
            if let Some(xid) = session.info().xid {
                infos.push(info(backend, LockKey::Transaction(xid), 0, true));
            }
            if let Some(wait) = session.current_wait()
                && let LockKey::Transaction(_) = wait.key
            {
                infos.push(info(backend, wait.key, 0, false));
            }
        }
        let mut sets = Vec::new();
        for partition in &self.partitions {
            let partition = partition.lock();
            for (key, entry) in &partition.entries {
                for grant in &entry.granted {
                    let backend = grant.session.backend();
                    infos.extend(bits(grant.modes).map(|bit| info(backend, *key, bit, true)));
                }
                for waiter in &entry.waiters {
                    infos.push(info(waiter.session.backend(), *key, waiter.mode.bit, false));
                }
            }
            for (page, locks) in &partition.pages {
                sets.extend(locks.sets().map(|set| (*page, set)));
            }
        }
        infos.into_iter().chain(sets.into_iter().flat_map(|(page, (backend, mode, rows))| {
            let rows: Vec<OffsetNumber> = rows.iter().collect();
            rows.into_iter().map(move |row| info(backend, LockKey::Row(page.row(row)), mode, true))
        }))
    }

    /// Returns the sessions that block this one: holders of the awaited lock, and waiters ahead in
    /// its queue (`pg_blocking_pids`). Empty when the session does not wait.
    pub fn blocking_backends(&self, backend: i32) -> Vec<i32> {
        let sessions = self.registry.all();
        let Some(at) = sessions.iter().position(|session| session.backend() == backend) else {
            return Vec::new();
        };
        let graph = Graph::new(self, &sessions);
        let mut blocking: Vec<i32> =
            graph.edges(at).iter().map(|edge| sessions[edge.to].backend()).collect();
        blocking.sort_unstable();
        blocking.dedup();
        debug_assert!(!blocking.contains(&backend), "session {backend} blocks itself");
        blocking
    }
}

fn info(backend: i32, key: LockKey, bit: u8, granted: bool) -> LockInfo {
    LockInfo { backend, key, mode: mode_name(&key, bit, granted), granted, fast_path: false }
}
