//! The after-trigger queue: checks, foreign key actions and triggers that wait for a statement's
//! end.

use niwaki_catalog::{CatalogState, ColumnMap, ForeignKey, Oid, Relation};
use niwaki_sql::FiredTrigger;
use niwaki_table::DeferredKey;
use niwaki_types::Datum;

/// A change that concerns a foreign key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The constraint.
    pub(crate) constraint: Oid,
    /// The table whose row was changed.
    pub(crate) table: Oid,
    pub(crate) change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A referencing row has this key.
    Refers { key: Box<[Datum]> },
    /// The referenced row with this key is gone.
    Deleted { old: Box<[Datum]> },
    /// A referenced row has another key now.
    Replaced { old: Box<[Datum]>, new: Box<[Datum]> },
}

/// Work for the end of the statement.
#[derive(Debug)]
pub(crate) enum Event {
    /// A possibly duplicate key.
    Doubtful(DeferredKey),
    /// A change that concerns a foreign key.
    Key(Key),
    /// A trigger that is fired after a change.
    Trigger(Box<dyn FiredTrigger>),
    /// A possibly duplicate key whose check was deferred and is due now.
    DueDoubtful(DeferredKey),
    /// A change whose foreign key check was deferred and is due now.
    DueKey(Key),
}

/// The after-trigger queue of the running statement, in order.
#[derive(Debug, Default)]
pub(crate) struct AfterTriggerQueue {
    events: Vec<Event>,
    /// The last found key, with its constraint and the versions of the definitions. Rows that refer
    /// to the same row often come together. The referenced row is locked, so it stays as long as
    /// this transaction leaves it.
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    constraint: Oid,
    version: (u64, u64),
    key: Box<[Datum]>,
}

impl AfterTriggerQueue {
    /// Returns the number of queued events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Takes the events queued after the first `count`. Possibly duplicate keys come first.
    pub(crate) fn take_since(&mut self, count: usize) -> Vec<Event> {
        let mut events = self.events.split_off(count.min(self.events.len()));
        events.sort_by_key(|event| !matches!(event, Event::Doubtful(_)));
        events
    }

    /// Queues possibly duplicate keys.
    pub(crate) fn doubtful(&mut self, keys: Vec<DeferredKey>) {
        self.events.extend(keys.into_iter().map(Event::Doubtful));
    }

    /// Queues deferred checks that are due now.
    pub(crate) fn due(&mut self, keys: Vec<DeferredKey>, references: Vec<Key>) {
        self.events.extend(keys.into_iter().map(Event::DueDoubtful));
        self.events.extend(references.into_iter().map(Event::DueKey));
    }

    /// Forgets everything, because the statement or its transaction was undone, or ended.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.found = None;
    }

    /// Queues a trigger to fire.
    pub(crate) fn fired(&mut self, trigger: Box<dyn FiredTrigger>) {
        self.events.push(Event::Trigger(trigger));
    }

    fn note(&mut self, key: Key) {
        self.events.push(Event::Key(key));
    }

    /// Queues an inserted row.
    pub(crate) fn inserted(&mut self, relation: &Relation, row: &[Datum]) {
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

    /// Queues an updated row.
    pub(crate) fn updated(
        &mut self,
        relation: &Relation,
        state: &CatalogState,
        old: &[Datum],
        new: &[Datum],
    ) {
        self.replaced(relation, state, old, new);
        for foreign_key in &relation.foreign_keys {
            if !is_same(old, new, &foreign_key.columns) {
                self.refers(relation, foreign_key, new);
            }
        }
    }

    /// Queues the replacement of the referenced columns of a row of `relation`.
    pub(crate) fn replaced(
        &mut self,
        relation: &Relation,
        state: &CatalogState,
        old: &[Datum],
        new: &[Datum],
    ) {
        for_each_acting(relation, state, &mut |foreign_key, referenced| {
            if is_same(old, new, referenced) {
                return;
            }
            let old = key_of(old, referenced);
            if old.iter().any(Datum::is_null) {
                return;
            }
            self.found = None;
            let change = Change::Replaced { old, new: key_of(new, referenced) };
            self.note(Key { constraint: foreign_key.oid, table: relation.oid, change });
        });
    }

    /// Queues a deleted row.
    pub(crate) fn deleted(&mut self, relation: &Relation, state: &CatalogState, old: &[Datum]) {
        for_each_acting(relation, state, &mut |foreign_key, referenced| {
            self.note_deleted(relation, foreign_key, key_of(old, referenced));
        });
    }

    /// Queues a row that moved to another partition. The move is a deletion only for foreign keys
    /// that reference its partition alone. Foreign keys that reference tables above get it by
    /// [`AfterTriggerQueue::replaced`].
    pub(crate) fn left(&mut self, relation: &Relation, state: &CatalogState, old: &[Datum]) {
        for_each_own(relation.oid, state, &mut |foreign_key| {
            self.note_deleted(relation, foreign_key, key_of(old, &foreign_key.referenced));
        });
    }

    fn note_deleted(&mut self, relation: &Relation, foreign_key: &ForeignKey, old: Box<[Datum]>) {
        if old.iter().any(Datum::is_null) {
            return;
        }
        self.found = None;
        let change = Change::Deleted { old };
        self.note(Key { constraint: foreign_key.oid, table: relation.oid, change });
    }

    pub(crate) fn was_found(&self, constraint: Oid, version: (u64, u64), key: &[Datum]) -> bool {
        self.found.as_ref().is_some_and(|found| {
            found.constraint == constraint
                && found.version == version
                && found.key.iter().zip(key).all(|(a, b)| a.same_image(b))
        })
    }

    pub(crate) fn found(&mut self, constraint: Oid, version: (u64, u64), key: &[Datum]) {
        self.found = Some(Found { constraint, version, key: key.into() });
    }
}

/// Visits the foreign keys that act when rows of a table change, with the columns that they
/// reference there. These foreign keys reference the table, or a table that it is a partition of.
/// Of a partitioned foreign key only the topmost acts, for all of its parts.
fn for_each_acting(
    relation: &Relation,
    state: &CatalogState,
    visit: &mut dyn FnMut(&ForeignKey, &[u16]),
) {
    for_each_own(relation.oid, state, &mut |key| visit(key, &key.referenced));
    let mut above = relation.partition_of.as_ref();
    while let Some(table) = above.and_then(|of| state.relation(of.parent)) {
        if !state.foreign_keys_to(table.oid).is_empty() {
            let map = ColumnMap::between(&table.definition, &relation.definition);
            let place = |column: &u16| {
                let place = map.place(usize::from(*column));
                place.and_then(|place| u16::try_from(place).ok()).unwrap_or(u16::MAX)
            };
            for_each_own(table.oid, state, &mut |key| {
                let columns: Vec<u16> = key.referenced.iter().map(place).collect();
                visit(key, &columns);
            });
        }
        above = table.partition_of.as_ref();
    }
}

/// Visits the foreign keys that reference the table and are not part of one that references a table
/// above it.
fn for_each_own(table: Oid, state: &CatalogState, visit: &mut dyn FnMut(&ForeignKey)) {
    for oid in state.foreign_keys_to(table) {
        if let Some((_, key)) = state.foreign_key(*oid).filter(|(_, key)| key.part_of.is_none()) {
            visit(key);
        }
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
