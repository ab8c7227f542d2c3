//! Deferred constraint checks of a transaction.

use niwaki_catalog::{
    CatalogState, ConstraintTime, Oid, ReferentialAction, Relation, of_table_number,
};
use niwaki_env::hash::HashMap;
use niwaki_table::DeferredKey;

use crate::session::after_trigger_queue::{Change, Key};

/// Modes that SET CONSTRAINTS set in this transaction: true for deferred.
#[derive(Clone, Debug, Default)]
struct ConstraintModes {
    all: Option<bool>,
    each: HashMap<Oid, bool>,
}

/// State of deferrable constraints in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    modes: ConstraintModes,
    keys: Vec<DeferredKey>,
    references: Vec<Key>,
}

/// Part of [`Deferred`] that a savepoint remembers.
#[derive(Debug)]
pub(crate) struct DeferredMark {
    modes: ConstraintModes,
    keys: usize,
    references: usize,
}

impl Deferred {
    pub(crate) fn mark(&self) -> DeferredMark {
        DeferredMark {
            modes: self.modes.clone(),
            keys: self.keys.len(),
            references: self.references.len(),
        }
    }

    pub(crate) fn rollback_to(&mut self, mark: &DeferredMark) {
        self.modes = mark.modes.clone();
        self.keys.truncate(mark.keys);
        self.references.truncate(mark.references);
    }

    pub(crate) fn clear(&mut self) {
        let said = self.modes.all.is_some() || !self.modes.each.is_empty();
        if said || !self.keys.is_empty() || !self.references.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes all checks that wait. Returns `None` if there is none.
    pub(crate) fn take(&mut self) -> Option<(Vec<DeferredKey>, Vec<Key>)> {
        if self.keys.is_empty() && self.references.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.keys), std::mem::take(&mut self.references)))
    }

    /// Sets the mode of all constraints, as SET CONSTRAINTS ALL does.
    pub(crate) fn set_all(&mut self, deferred: bool) {
        self.modes = ConstraintModes { all: Some(deferred), each: HashMap::default() };
    }

    /// Sets the mode of some constraints.
    pub(crate) fn set_each(&mut self, constraints: &[Oid], deferred: bool) {
        for oid in constraints {
            self.modes.each.insert(*oid, deferred);
        }
    }

    /// Returns the waiting checks of the constraints that `concerned` accepts.
    pub(crate) fn waiting(&self, concerned: impl Fn(Oid) -> bool) -> (Vec<DeferredKey>, Vec<Key>) {
        let keys = self.keys.iter().filter(|key| concerned(constraint_of(key)));
        let references = self.references.iter().filter(|key| concerned(key.constraint));
        (keys.cloned().collect(), references.cloned().collect())
    }

    /// Forgets such checks, since they were made. Those from before the savepoint stay.
    pub(crate) fn forget_made(
        &mut self,
        mark: Option<&DeferredMark>,
        concerned: impl Fn(Oid) -> bool,
    ) {
        let (keys, references) = mark.map_or((0, 0), |mark| (mark.keys, mark.references));
        let mut number = 0;
        self.keys.retain(|key| {
            number += 1;
            number <= keys || !concerned(constraint_of(key))
        });
        let mut number = 0;
        self.references.retain(|key| {
            number += 1;
            number <= references || !concerned(key.constraint)
        });
    }

    /// Returns whether a key of this table waits to be checked.
    pub(crate) fn concerns(&self, table: Oid) -> bool {
        self.keys.iter().any(|key| of_table_number(key.table).1 == table)
            || self.references.iter().any(|key| key.table == table)
    }

    /// Keeps a possibly duplicate key for a later check.
    pub(crate) fn keep_key(&mut self, key: DeferredKey) {
        self.keys.push(key);
    }

    /// Keeps a change that concerns a foreign key for a later check.
    pub(crate) fn keep_reference(&mut self, reference: Key) {
        self.references.push(reference);
    }

    pub(crate) fn is_deferred(&self, index: &Relation) -> bool {
        let time = index.index.as_ref().map_or(ConstraintTime::AtOnce, |i| i.check_time);
        self.is_later(index.oid, time)
    }

    fn is_later(&self, constraint: Oid, time: ConstraintTime) -> bool {
        let said = self.modes.each.get(&constraint).copied().or(self.modes.all);
        match time {
            ConstraintTime::AtOnce => false,
            ConstraintTime::Statement => said.unwrap_or(false),
            ConstraintTime::Transaction => said.unwrap_or(true),
        }
    }

    /// Decides whether a change that concerns a foreign key waits. Only checks that keys exist are
    /// deferred, never actions that follow from a change.
    pub(crate) fn waits(&self, state: &CatalogState, reference: &Key) -> bool {
        let Some((_, key)) = state.foreign_key(reference.constraint) else { return false };
        let deferrable = match reference.change {
            Change::Refers { .. } => true,
            Change::Deleted { .. } => key.on_delete == ReferentialAction::NoAction,
            Change::Replaced { .. } => key.on_update == ReferentialAction::NoAction,
        };
        deferrable && self.is_later(key.oid, key.check_time)
    }
}

/// Returns the index whose key waits.
fn constraint_of(key: &DeferredKey) -> Oid {
    of_table_number(key.index).1
}
