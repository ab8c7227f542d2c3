//! Checks of constraints that wait: for the end of the statement, or of the transaction.

use niwaki_table::DeferredKey;

use crate::session::after_trigger_queue::AfterTriggerQueue;
use crate::session::reference_plans::{ForeignKeys, Plans};
use crate::session::state::deferred::{Deferred, DeferredMark};

/// Constraint checks of a session.
#[derive(Default)]
pub(crate) struct Checks {
    /// Checks that wait for the end of the transaction.
    deferred: Deferred,
    foreign_keys: ForeignKeys,
    /// Set while one statement spans several commands: the end of a command then checks no
    /// constraints.
    in_parts: bool,
}

impl Checks {
    /// Returns the checks that wait for the end of the transaction.
    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// Returns the checks that wait for the end of the transaction, to change them.
    pub(crate) fn deferred_mut(&mut self) -> &mut Deferred {
        &mut self.deferred
    }

    /// Returns the notes of the running statement's changes.
    pub(crate) fn queue_mut(&mut self) -> &mut AfterTriggerQueue {
        &mut self.foreign_keys.queue
    }

    /// Returns the notes, the deferred checks and the plans of checks, for a running statement.
    pub(crate) fn parts(&mut self) -> (&mut AfterTriggerQueue, &mut Deferred, &mut Plans) {
        let ForeignKeys { queue, plans } = &mut self.foreign_keys;
        (queue, &mut self.deferred, plans)
    }

    /// Sets whether one statement spans the commands from now on.
    pub(crate) fn set_in_parts(&mut self, in_parts: bool) {
        self.in_parts = in_parts;
    }

    /// Returns whether the end of a command checks nothing.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// Adds the possibly duplicate keys of a statement that has ended. Returns whether there is
    /// something to check.
    pub(crate) fn ended(&mut self, keys: Vec<DeferredKey>) -> bool {
        self.foreign_keys.queue.doubtful(keys);
        self.foreign_keys.queue.len() > 0
    }

    /// Makes all deferred checks due now. Returns false if there is none.
    pub(crate) fn make_due(&mut self) -> bool {
        let Some((keys, references)) = self.deferred.take() else { return false };
        self.foreign_keys.queue.due(keys, references);
        true
    }

    /// Forgets all checks, because the transaction ends.
    pub(crate) fn forget(&mut self) {
        self.deferred.clear();
        self.forget_statement();
    }

    /// Forgets the checks that came after a savepoint.
    pub(crate) fn rollback_to(&mut self, mark: &DeferredMark) {
        self.deferred.rollback_to(mark);
        self.forget_statement();
    }

    fn forget_statement(&mut self) {
        self.foreign_keys.queue.clear();
        self.in_parts = false;
    }
}
