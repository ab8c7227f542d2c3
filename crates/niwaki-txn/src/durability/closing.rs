//! Closing a database: no transaction may run behind the checkpoint of a shutdown.
//!
//! ```text
//!   session                              closer
//!   in_transaction := true               closing := true
//!   fence                                fence
//!   closing ? → refused                  in_transaction of every session ? → wait
//! ```
//!
//! Either the session sees that the database closes, or the closer sees the session's transaction
//! and waits. When [`TransactionManager::wait_for_transactions`] has returned, no transaction is
//! open and none begins. So no id is assigned, and nothing is logged, behind the state that the
//! last checkpoint knows.

use std::time::Duration;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Parker;
use niwaki_env::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::handle::manager::TransactionManager;

/// Time between two looks of the closer at the open transactions.
const NAP: Duration = Duration::from_millis(1);

const _: () = assert!(NAP.as_millis() == 1, "a patience of n milliseconds is n naps");

impl TransactionManager {
    /// Refuses new work: from now on no session registers ([`Error::ShuttingDown`]) and no
    /// transaction begins ([`Error::Terminated`]). Terminates all sessions.
    pub fn refuse_new_work(&self) {
        // SeqCst: pairs with the look at `closing` behind `in_transaction` in `begin`.
        self.closing.store(true, Ordering::SeqCst);
        for session in self.registry.all() {
            session.terminate();
        }
    }

    /// Returns whether [`TransactionManager::refuse_new_work`] was called.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // SeqCst: pairs with the store in `refuse_new_work`.
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until no transaction is open, after [`TransactionManager::refuse_new_work`].
    /// `patience` limits the wait, to the millisecond.
    ///
    /// # Errors
    /// [`Error::StillInUse`] with the number of sessions whose transaction is still open.
    pub fn wait_for_transactions(&self, patience: Duration) -> Result<()> {
        if seeded_bug!("shutdown_beside_transactions") {
            return Ok(());
        }
        let parker = Parker::new();
        let mut naps = patience.as_millis();
        // Ends: each round uses up a nap.
        loop {
            let open = |session: &&_| in_transaction(session);
            let sessions = self.registry.all().iter().filter(open).count();
            if sessions == 0 {
                return Ok(());
            }
            if naps == 0 {
                return Err(Error::StillInUse { sessions });
            }
            naps -= 1;
            parker.park_timeout(NAP);
        }
    }
}

/// Returns whether the session has a transaction. False is stored after all work of the
/// transaction.
fn in_transaction(session: &std::sync::Arc<crate::handle::session::SessionControl>) -> bool {
    // SeqCst: pairs with `begin`, as above; and with the release at the transaction's end.
    session.in_transaction.load(Ordering::SeqCst)
}
