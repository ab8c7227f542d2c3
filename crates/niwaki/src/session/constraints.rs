//! Deferrable constraints: when what statements made doubtful is checked.
//!
//! A statement leaves the keys that may be there twice in the workspace. At its end those of constraints
//! that are immediate now are checked; the others wait for SET CONSTRAINTS … IMMEDIATE or the commit. A
//! rollback to a savepoint forgets what came after it; what was checked after a savepoint stays noted if it
//! came before it, because the rollback may bring a row back that was gone when it was checked.

use hashbrown::HashMap;
use niwaki_catalog::{ConstraintTime, Oid, Relation};
use niwaki_sql::SqlError;
use niwaki_sql::utility::Name;
use niwaki_table::DeferredKey;

use super::errors::of_table;
use super::{Block, Session};
use crate::Result;
use crate::result::ResultSink;

/// What SET CONSTRAINTS said in this transaction: whether constraints are deferred.
#[derive(Clone, Debug, Default)]
pub(super) struct ConstraintModes {
    all: Option<bool>,
    each: HashMap<Oid, bool>,
}

/// What a session keeps of deferrable constraints, for one transaction.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    modes: ConstraintModes,
    keys: Vec<DeferredKey>,
}

/// What a savepoint remembers of it.
#[derive(Debug)]
pub(super) struct DeferredMark {
    modes: ConstraintModes,
    pub(super) keys: usize,
}

impl Deferred {
    pub(super) fn mark(&self) -> DeferredMark {
        DeferredMark { modes: self.modes.clone(), keys: self.keys.len() }
    }

    pub(super) fn rollback_to(&mut self, mark: &DeferredMark) {
        self.modes = mark.modes.clone();
        self.keys.truncate(mark.keys);
    }

    pub(super) fn clear(&mut self) {
        if !self.keys.is_empty() || self.modes.all.is_some() || !self.modes.each.is_empty() {
            *self = Self::default();
        }
    }

    /// Whether a key of this table waits to be checked.
    pub(super) fn concerns(&self, table: Oid) -> bool {
        self.keys.iter().any(|key| key.table == u64::from(table.0))
    }

    fn is_deferred(&self, index: &Relation) -> bool {
        let initially =
            index.index.as_ref().is_some_and(|i| i.check_time == ConstraintTime::Transaction);
        let said = self.modes.each.get(&index.oid).copied().or(self.modes.all);
        said.unwrap_or(initially)
    }
}

impl Session {
    /// The end of a statement: checks what is immediate, keeps what is deferred.
    pub(super) fn check_after_statement(&mut self) -> Result<()> {
        let noted = self.work.take_deferred();
        if noted.is_empty() {
            return Ok(());
        }
        let state = self.catalog.state();
        for key in noted {
            let Some(index) = relation_of(key.index).and_then(|oid| state.relation(oid)) else {
                continue;
            };
            if self.deferred.is_deferred(index) {
                self.deferred.keys.push(key);
            } else {
                self.check_key(&key)?;
            }
        }
        Ok(())
    }

    /// Before the commit: checks everything.
    pub(super) fn check_before_commit(&mut self) -> Result<()> {
        self.check_after_statement()?;
        if self.deferred.keys.is_empty() {
            return Ok(());
        }
        for key in std::mem::take(&mut self.deferred.keys) {
            self.check_key(&key)?;
        }
        Ok(())
    }

    fn check_key(&mut self, key: &DeferredKey) -> Result<()> {
        let state = self.catalog.state();
        let relation = relation_of(key.table).and_then(|oid| state.relation(oid));
        let Some((relation, table)) = relation.and_then(|r| Some((r, r.table.as_ref()?))) else {
            return Ok(());
        };
        let transaction = self.open_transaction()?;
        table.check_deferred(transaction, key).map_err(|error| of_table(error, relation, &state))
    }

    /// SET CONSTRAINTS. Constraints that become immediate are checked now, for what was done before.
    pub(super) fn set_constraints(
        &mut self,
        names: &[Name],
        deferred: bool,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        if self.block != Block::Explicit {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.warning(out, "25P01", message);
        }
        let constraints = names.iter().map(|n| self.constraint(n)).collect::<Result<Vec<Oid>>>()?;
        if constraints.is_empty() {
            self.deferred.modes = ConstraintModes { all: Some(deferred), each: HashMap::new() };
        }
        for oid in &constraints {
            self.deferred.modes.each.insert(*oid, deferred);
        }
        if !deferred {
            let concerned = |key: &DeferredKey| {
                constraints.is_empty()
                    || relation_of(key.index).is_some_and(|oid| constraints.contains(&oid))
            };
            let due: Vec<DeferredKey> =
                self.deferred.keys.iter().filter(|key| concerned(key)).cloned().collect();
            for key in &due {
                self.check_key(key)?;
            }
            let before_savepoint = self.levels.last().map_or(0, |level| level.deferred.keys);
            let mut number = 0;
            self.deferred.keys.retain(|key| {
                number += 1;
                number <= before_savepoint || !concerned(key)
            });
        }
        Ok("SET CONSTRAINTS")
    }

    /// A deferrable constraint by name.
    fn constraint(&mut self, name: &Name) -> Result<Oid> {
        let state = self.catalog.state();
        let path = self.search_path();
        let found = state.resolve(&path, name.schema.as_deref(), &name.name).ok();
        let index = found.and_then(|r| Some((r, r.index.as_ref()?)));
        let Some((relation, index)) = index.filter(|(_, i)| i.constraint.is_some()) else {
            let message = format!("constraint \"{}\" does not exist", name.name);
            return Err(SqlError::new("42704", message));
        };
        if index.check_time == ConstraintTime::AtOnce {
            let message = format!("constraint \"{}\" is not deferrable", name.name);
            return Err(SqlError::new("42809", message));
        }
        Ok(relation.oid)
    }
}

/// Numbers that the table layer knows are those of the catalog.
fn relation_of(number: u64) -> Option<Oid> {
    u32::try_from(number).ok().map(Oid)
}
