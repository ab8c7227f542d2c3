//! Notes of what statements did to rows that refer or are referred to.

use niwaki_catalog::{CatalogState, ForeignKey, Oid, Relation};
use niwaki_sql::FiredTrigger;
use niwaki_types::Datum;

/// A change that a foreign key has something to say to.
#[derive(Clone, Debug)]
pub(in crate::session) struct Key {
    /// The constraint.
    pub(in crate::session) constraint: Oid,
    /// The table whose row was changed.
    pub(in crate::session) table: Oid,
    pub(in crate::session) change: Change,
}

#[derive(Clone, Debug)]
pub(in crate::session) enum Change {
    /// A referencing row has this key.
    Refers { key: Box<[Datum]> },
    /// The referenced row with this key is gone.
    Deleted { old: Box<[Datum]> },
    /// A referenced row has another key now.
    Replaced { old: Box<[Datum]>, new: Box<[Datum]> },
}

/// What is to be seen to when the statement has ended.
#[derive(Debug)]
pub(in crate::session) enum Event {
    /// A change that a foreign key has something to say to.
    Key(Key),
    /// A trigger that is fired after a change.
    Trigger(Box<FiredTrigger>),
}

/// The notes of the running statement, in order.
#[derive(Debug, Default)]
pub(in crate::session) struct Noted {
    events: Vec<Event>,
    /// The last key that was found, and under which definitions: rows that refer to one row often come together. Its row is locked,
    /// so it stays as long as this transaction leaves it.
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    constraint: Oid,
    version: (u64, u64),
    key: Box<[Datum]>,
}

impl Noted {
    /// Takes what was noted so far.
    pub(in crate::session) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Forgets everything: the statement or its transaction was undone, or ended.
    pub(in crate::session) fn clear(&mut self) {
        self.events.clear();
        self.found = None;
    }

    /// A trigger is to be fired.
    pub(in crate::session) fn fired(&mut self, trigger: FiredTrigger) {
        self.events.push(Event::Trigger(Box::new(trigger)));
    }

    fn note(&mut self, key: Key) {
        self.events.push(Event::Key(key));
    }

    /// A row was inserted.
    pub(in crate::session) fn inserted(&mut self, relation: &Relation, row: &[Datum]) {
        for foreign_key in &relation.foreign_keys {
            self.refers(relation, foreign_key, row);
        }
    }

    fn refers(&mut self, relation: &Relation, foreign_key: &ForeignKey, row: &[Datum]) {
        let key = key_of(row, &foreign_key.columns);
        let nulls = key.iter().filter(|value| value.is_null()).count();
        if nulls == key.len() || (nulls > 0 && !foreign_key.match_full) {
            return;
        }
        let change = Change::Refers { key };
        self.note(Key { constraint: foreign_key.oid, table: relation.oid, change });
    }

    /// A row was replaced by another.
    pub(in crate::session) fn updated(
        &mut self,
        relation: &Relation,
        state: &CatalogState,
        old: &[Datum],
        new: &[Datum],
    ) {
        for oid in state.foreign_keys_to(relation.oid) {
            let Some((_, foreign_key)) = state.foreign_key(*oid) else { continue };
            if is_same(old, new, &foreign_key.referenced) {
                continue;
            }
            let old = key_of(old, &foreign_key.referenced);
            if old.iter().any(Datum::is_null) {
                continue;
            }
            self.found = None;
            let change = Change::Replaced { old, new: key_of(new, &foreign_key.referenced) };
            self.note(Key { constraint: *oid, table: relation.oid, change });
        }
        for foreign_key in &relation.foreign_keys {
            if !is_same(old, new, &foreign_key.columns) {
                self.refers(relation, foreign_key, new);
            }
        }
    }

    /// A row was deleted.
    pub(in crate::session) fn deleted(
        &mut self,
        relation: &Relation,
        state: &CatalogState,
        old: &[Datum],
    ) {
        for oid in state.foreign_keys_to(relation.oid) {
            let Some((_, foreign_key)) = state.foreign_key(*oid) else { continue };
            let old = key_of(old, &foreign_key.referenced);
            if old.iter().any(Datum::is_null) {
                continue;
            }
            self.found = None;
            let change = Change::Deleted { old };
            self.note(Key { constraint: *oid, table: relation.oid, change });
        }
    }

    pub(super) fn was_found(&self, constraint: Oid, version: (u64, u64), key: &[Datum]) -> bool {
        self.found.as_ref().is_some_and(|found| {
            found.constraint == constraint
                && found.version == version
                && found.key.iter().zip(key).all(|(a, b)| a.same_image(b))
        })
    }

    pub(super) fn found(&mut self, constraint: Oid, version: (u64, u64), key: &[Datum]) {
        self.found = Some(Found { constraint, version, key: key.into() });
    }
}

fn key_of(row: &[Datum], columns: &[u16]) -> Box<[Datum]> {
    let value = |column: &u16| row.get(usize::from(*column)).cloned().unwrap_or(Datum::Null);
    columns.iter().map(value).collect()
}

fn is_same(old: &[Datum], new: &[Datum], columns: &[u16]) -> bool {
    columns.iter().all(|column| {
        let at = usize::from(*column);
        match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => old.same_image(new),
            _ => false,
        }
    })
}
