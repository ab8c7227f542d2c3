//! Deferred constraint checks of a transaction.

use niwaki_catalog::{
    CatalogState, ConstraintTime, Oid, ReferentialAction, Relation, of_table_number,
};
use niwaki_env::hash::HashMap;
use niwaki_table::DeferredKey;

use crate::session::noted::{Change, Key};

/// Modes that SET CONSTRAINTS set in this transaction: true for deferred.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConstraintModes {
    pub(crate) all: Option<bool>,
    pub(crate) each: HashMap<Oid, bool>,
}

/// State of deferrable constraints in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    pub(crate) modes: ConstraintModes,
    pub(crate) keys: Vec<DeferredKey>,
    pub(crate) references: Vec<Key>,
}

/// Part of [`Deferred`] that a savepoint remembers.
#[derive(Debug)]
pub(crate) struct DeferredMark {
    modes: ConstraintModes,
    pub(crate) keys: usize,
    pub(crate) references: usize,
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
    pub(crate) fn keep_reference(&mut self, noted: Key) {
        self.references.push(noted);
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
    pub(crate) fn waits(&self, state: &CatalogState, noted: &Key) -> bool {
        let Some((_, key)) = state.foreign_key(noted.constraint) else { return false };
        let deferrable = match noted.change {
            Change::Refers { .. } => true,
            Change::Deleted { .. } => key.on_delete == ReferentialAction::NoAction,
            Change::Replaced { .. } => key.on_update == ReferentialAction::NoAction,
        };
        deferrable && self.is_later(key.oid, key.check_time)
    }
}
