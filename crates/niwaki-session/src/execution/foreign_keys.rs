//! Foreign keys: checks of referencing rows, and actions on rows that refer to a changed key.
//!
//! ```text
//!  INSERT, UPDATE of a referencing row ─► Check  ─► is the key there? FOR KEY SHARE keeps it
//!  UPDATE, DELETE of a referenced row  ─► Action ─► refuse, delete, follow, set NULL or default
//! ```
//!
//! Changes are queued as they happen (`AfterTriggerQueue`). When their statement has ended, they
//! are handled in the order in which they were made. Changes made meanwhile are queued behind them.
//! Deferred constraints wait for the end of the transaction.
//!
//! Why no row is left without the row that it refers to: a check sees the referenced row under a
//! snapshot taken after the change, and locks the row until the transaction ends. A transaction
//! that deletes the referenced row, or changes its key, waits for that lock. Only then does it look
//! for referring rows, under a snapshot taken after the wait.
//!
//! At REPEATABLE READ this second look has a new snapshot, too. A transaction that finds a row
//! there that its own snapshot does not see gives up (40001).

use std::sync::Arc;

use niwaki_catalog::{CatalogState, ForeignKey, Oid, ReferentialAction, Relation};
use niwaki_sql::{ExecContext, Result, SqlError};
use niwaki_system::names::schema_name;
use niwaki_types::{Datum, TextSettings};

use crate::execution::after_trigger_context::AfterTriggerContext;
use crate::session::after_trigger_queue::{Change, Key};
use crate::session::handle::Session;
use crate::session::reference_plans::QueryKind;

/// A constraint, while one change is handled.
#[derive(Clone, Copy)]
pub(crate) struct Constraint<'s> {
    pub(crate) state: &'s CatalogState,
    /// The referencing table.
    pub(crate) table: &'s Arc<Relation>,
    /// The referenced table.
    pub(crate) referenced: &'s Arc<Relation>,
    /// Table whose row was changed. It may be a partition of the referencing or the referenced
    /// table.
    changed: Option<&'s Arc<Relation>>,
    pub(crate) key: &'s ForeignKey,
}

impl<'s> Constraint<'s> {
    /// Finds a constraint. `None` when it is gone.
    fn find(state: &'s CatalogState, oid: Oid) -> Option<Self> {
        let (table, key) = state.foreign_key(oid)?;
        let referenced = state.relation(key.references)?;
        Some(Self { state, table, referenced, changed: None, key })
    }
}

/// Checks and actions after statements that have ended, in the context of the session's statement.
pub(crate) struct Following<'a, 's, 'x> {
    pub(crate) end: &'a AfterTriggerContext<'s>,
    pub(crate) exec: &'a mut ExecContext<'x>,
}

impl Following<'_, '_, '_> {
    /// Processes a queued change.
    pub(crate) fn process(&mut self, reference: &Key) -> Result<()> {
        let state = self.end.state();
        // A constraint that was dropped since then needs no check and no action.
        let Some(mut constraint) = Constraint::find(&state, reference.constraint) else {
            return Ok(());
        };
        constraint.changed = state.relation(reference.table);
        match &reference.change {
            Change::Refers { key } => self.check_referenced(&constraint, key),
            Change::Deleted { old } => self.act(&constraint, constraint.key.on_delete, old, None),
            Change::Replaced { old, new } => {
                self.act(&constraint, constraint.key.on_update, old, Some(&**new))
            }
        }
    }

    /// Checks a key that a row of the referencing table has, or had.
    fn check_referenced(&mut self, constraint: &Constraint<'_>, key: &[Datum]) -> Result<()> {
        let nulls = key.iter().filter(|value| value.is_null()).count();
        if nulls > 0 {
            if !constraint.key.match_full || nulls == key.len() {
                return Ok(());
            }
            return Err(constraint.missing_key(key, self.exec.text));
        }
        let (constraint_oid, version) = (constraint.key.oid, self.end.plan_version());
        if self.end.queue.borrow().was_found(constraint_oid, version, key) {
            return Ok(());
        }
        if self.locks_referenced(constraint, key)? {
            self.end.queue.borrow_mut().found(constraint_oid, version, key);
            return Ok(());
        }
        // With a deferred check, the referencing row may be gone again.
        if !self.is_referring(constraint, key)? {
            return Ok(());
        }
        Err(constraint.missing_key(key, self.exec.text))
    }

    /// Does the action of a foreign key. The referenced row with the key `old` is gone, or has the
    /// key `new` now.
    fn act(
        &mut self,
        constraint: &Constraint<'_>,
        action: ReferentialAction,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> Result<()> {
        match action {
            ReferentialAction::NoAction => self.refuse_referring(constraint, old, true),
            ReferentialAction::Restrict => self.refuse_referring(constraint, old, false),
            ReferentialAction::Cascade => match new {
                None => self.change_referring(constraint, QueryKind::Delete, old, &[]),
                Some(new) => self.change_referring(constraint, QueryKind::Follow, old, new),
            },
            ReferentialAction::SetNull => {
                let kind = QueryKind::SetNull { deleted: new.is_none() };
                self.change_referring(constraint, kind, old, &[])
            }
            ReferentialAction::SetDefault => {
                let kind = QueryKind::SetDefault { deleted: new.is_none() };
                self.change_referring(constraint, kind, old, &[])?;
                // If the default is the key itself, the update changes no key and notes no check.
                // So the check is here.
                self.refuse_referring(constraint, old, true)
            }
        }
    }

    /// Fails when a row still refers to this key. `may_be_back`: another row with the same key
    /// serves as well.
    fn refuse_referring(
        &mut self,
        constraint: &Constraint<'_>,
        key: &[Datum],
        may_be_back: bool,
    ) -> Result<()> {
        if may_be_back && self.is_back(constraint, key)? {
            return Ok(());
        }
        if !self.is_referred_to(constraint, key)? {
            return Ok(());
        }
        let (table, referenced) = (constraint.table, constraint.referenced);
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            constraint.changed.unwrap_or(referenced).name,
            constraint.key.name,
            table.name
        );
        let detail = format!(
            "Key {} is still referenced from table \"{}\".",
            key_text(referenced, &constraint.key.referenced, key, self.exec.text),
            table.name
        );
        Err(constraint.of(SqlError::new("23503", message).with_detail(detail)))
    }
}

impl Session {
    /// Returns the error for a referencing row with this key, when the row that it names does not
    /// exist.
    pub fn refused_reference(
        &self,
        state: &CatalogState,
        constraint: Oid,
        key: &[Datum],
    ) -> SqlError {
        match Constraint::find(state, constraint) {
            Some(constraint) => constraint.missing_key(key, self.text.settings()),
            None => SqlError::internal("a foreign key that has gone"),
        }
    }

    /// Returns the error for a partition that cannot leave its table, because a row refers to a key
    /// in it.
    pub fn refused_removal(
        &self,
        state: &CatalogState,
        constraint: Oid,
        partition: &Relation,
        key: &[Datum],
    ) -> SqlError {
        let Some(constraint) = Constraint::find(state, constraint) else {
            return SqlError::internal("a foreign key that has gone");
        };
        let message = format!(
            "removing partition \"{}\" violates foreign key constraint \"{}\"",
            partition.name, constraint.key.name
        );
        let detail = format!(
            "Key {} is still referenced from table \"{}\".",
            key_text(constraint.table, &constraint.key.columns, key, self.text.settings()),
            constraint.table.name
        );
        constraint.of(SqlError::new("23503", message).with_detail(detail))
    }
}

impl Constraint<'_> {
    fn missing_key(&self, key: &[Datum], text: &TextSettings) -> SqlError {
        let detail = if key.iter().any(Datum::is_null) {
            "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned()
        } else {
            format!(
                "Key {} is not present in table \"{}\".",
                key_text(self.table, &self.key.columns, key, text),
                self.referenced.name
            )
        };
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.table.name, self.key.name
        );
        self.of(SqlError::new("23503", message).with_detail(detail))
    }

    /// Adds the names of the constraint and of its table to an error.
    fn of(&self, error: SqlError) -> SqlError {
        let schema = schema_name(self.state, self.table.schema);
        error.with_table(schema, self.table.name.clone()).with_constraint(self.key.name.clone())
    }
}

/// Returns a key as text: `(a, b)=(1, x)`.
fn key_text(relation: &Relation, columns: &[u16], key: &[Datum], text: &TextSettings) -> String {
    let mut names = Vec::with_capacity(columns.len());
    let mut values = Vec::with_capacity(columns.len());
    for (column, value) in columns.iter().zip(key) {
        let Some(column) = relation.columns.get(usize::from(*column)) else { continue };
        names.push(column.name.as_str());
        values.push(match value {
            Datum::Null => "null".to_owned(),
            value => niwaki_types::to_text(value, column.column_type().oid, text),
        });
    }
    format!("({})=({})", names.join(", "), values.join(", "))
}
