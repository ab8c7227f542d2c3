//! Dependents of dropped objects, which are refused or dropped with them (CASCADE).

use std::sync::Arc;

use niwaki_catalog::{Meaning, Oid, Relation, RelationKind};
use niwaki_env::{seeded_bug, stack};
use niwaki_sql::{Result, Severity, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::Definer;
use crate::expression_dependents::{names_function, names_relation, users_of};
use crate::object::Object;

/// An object that cannot stay, with the reason.
pub(crate) struct Dependent {
    pub(crate) object: Object,
    /// The dropped object that this one depends on, as messages call it.
    on: String,
}

impl Definer<'_> {
    /// Returns the name of a relation, with its schema where the search path needs it.
    pub(crate) fn shown_name(&mut self, relation: &Relation) -> String {
        let path = self.session.search_path();
        self.state().shown_relation(&path, relation)
    }

    /// Returns the objects that depend on one of the relations `going` and are not among them:
    /// foreign keys, views, functions and stored expressions.
    pub(crate) fn dependents_of(&mut self, going: &[Oid]) -> Result<Vec<Dependent>> {
        let mut found = Vec::new();
        for oid in going {
            self.add_dependents_of(*oid, going, &mut found)?;
        }
        found.reverse();
        Ok(found)
    }

    fn add_dependents_of(
        &mut self,
        oid: Oid,
        going: &[Oid],
        found: &mut Vec<Dependent>,
    ) -> Result<()> {
        let relation = self.current(oid)?;
        let on = format!("{} {}", relation.kind.word(), self.shown_name(&relation));
        let state = self.state();
        // A foreign key that refers to a table also refers to its partitions.
        let above = |oid| state.relation(oid).and_then(|table| table.partition_of.as_ref());
        let tables = std::iter::successors(Some(oid), |oid| above(*oid).map(|of| of.parent));
        let tables = tables.take_while(|table| *table == oid || !going.contains(table));
        let keys = tables.flat_map(|table| state.foreign_keys_to(table));
        let keys = keys.filter_map(|key| state.foreign_key(*key));
        // Parts of a foreign key are dropped with the whole key.
        let keys = keys.filter(|(_, key)| key.part_of.is_none());
        let keys =
            keys.map(|(table, key)| Object::ForeignKey { table: table.oid, constraint: key.oid });
        let views = state.views_of(oid).iter().copied().map(Object::View);
        let with_rows = state.functions().into_iter().filter(|f| f.types().contains(&oid));
        let with_rows = with_rows.map(|function| Object::Function(function.oid));
        let (has_rows, keys) = (relation.kind.has_row_type(), keys.chain(views));
        let with_rows: Vec<Object> = with_rows.filter(|_| has_rows).collect();
        let mut objects: Vec<Object> = keys.collect();
        objects.extend(users_of(&state, names_relation(oid))?);
        self.add_dependents(objects, &on, going, found)?;
        // Sequences of columns are dropped with the columns, and take along their other users.
        for sequence in owned_sequences(&state, oid) {
            let relation = self.current(sequence)?;
            let on = format!("sequence {}", self.shown_name(&relation));
            let objects = users_of(&state, names_relation(sequence))?;
            self.add_dependents(objects, &on, going, found)?;
        }
        let on = format!("type {}", self.shown_name(&relation));
        self.add_dependents(with_rows, &on, going, found)
    }

    /// Adds triggers, views and stored expressions that call a function.
    fn add_callers_of(
        &mut self,
        oid: Oid,
        going: &[Oid],
        found: &mut Vec<Dependent>,
    ) -> Result<()> {
        let state = self.state();
        let Some(function) = state.function(oid) else { return Ok(()) };
        let on = format!("function {}", self.shown_function(function));
        let calls = |view: &&Arc<Relation>| {
            let names = view.query.iter().flat_map(|query| &query.names);
            names.into_iter().any(|name| name.meaning == Meaning::Function(oid))
        };
        let views = state.relations().filter(calls).map(|view| Object::View(view.oid));
        let triggers = state
            .triggers()
            .into_iter()
            .filter(|(_, trigger)| trigger.function == oid && trigger.part_of.is_none())
            .map(|(table, trigger)| Object::Trigger { table: table.oid, trigger: trigger.oid });
        let mut objects: Vec<Object> = triggers.chain(views).collect();
        objects.extend(users_of(&state, names_function(oid))?);
        self.add_dependents(objects, &on, going, found)
    }

    /// Returns the objects that call one of these functions and are not among them.
    pub(crate) fn callers_of(&mut self, functions: &[Oid]) -> Result<Vec<Dependent>> {
        let mut found = Vec::new();
        for oid in functions {
            self.add_callers_of(*oid, functions, &mut found)?;
        }
        found.reverse();
        Ok(found)
    }

    /// Adds objects that depend on `on`, behind their own dependents, the newest first. So the
    /// whole list, reversed, begins with the oldest, and has each object in front of its
    /// dependents.
    fn add_dependents(
        &mut self,
        mut objects: Vec<Object>,
        on: &str,
        going: &[Oid],
        found: &mut Vec<Dependent>,
    ) -> Result<()> {
        objects.sort_by(|one, other| other.age().cmp(&one.age()));
        for object in objects {
            if going.contains(&object.owner()) || found.iter().any(|known| known.object == object) {
                continue;
            }
            if let &Object::View(view) = &object {
                // Ends: a view reads only older objects, or another error comes first.
                stack::deeper(|| self.add_dependents_of(view, going, found))?;
            }
            if let &Object::Function(function) = &object {
                stack::deeper(|| self.add_callers_of(function, going, found))?;
            }
            found.push(Dependent { object, on: on.to_owned() });
        }
        Ok(())
    }

    /// Returns the dependents of a part of a relation. Messages call the part `on`.
    pub(crate) fn dependents_on(
        &mut self,
        objects: Vec<Object>,
        on: &str,
    ) -> Result<Vec<Dependent>> {
        let mut found = Vec::new();
        self.add_dependents(objects, on, &[], &mut found)?;
        found.reverse();
        Ok(found)
    }

    /// Returns the foreign keys that rest on an index, including the table's own, and the views
    /// that group by its columns.
    pub(crate) fn references_on(&mut self, index: &Relation) -> Result<Vec<Dependent>> {
        let state = self.state();
        let Some(definition) = &index.index else { return Ok(Vec::new()) };
        let table = self.current(definition.table)?;
        let keys =
            state.foreign_keys_to(table.oid).iter().filter_map(|key| state.foreign_key(*key));
        let keys = keys.filter(|(_, key)| key.index == index.oid && key.part_of.is_none());
        let keys = keys
            .map(|(table, key)| Object::ForeignKey { table: table.oid, constraint: key.oid })
            .collect();
        let on = format!("index {}", self.shown_name(index));
        let mut found = self.dependents_on(keys, &on)?;
        let views = state.views_of(index.oid).iter().copied().map(Object::View).collect();
        let on = format!("constraint {} on table {}", index.name, self.shown_name(&table));
        found.extend(self.dependents_on(views, &on)?);
        Ok(found)
    }

    /// Returns the names of the objects as messages call them.
    fn shown(&mut self, dependents: &[Dependent]) -> Result<Vec<String>> {
        let mut shown = Vec::with_capacity(dependents.len());
        for dependent in dependents {
            let object = &dependent.object;
            if let Object::Function(oid) = object {
                let function = self.state().function(*oid).cloned();
                let name = function.map(|function| self.shown_function(&function));
                shown.push(format!("function {}", name.unwrap_or_default()));
                continue;
            }
            let (Object::View(_) | Object::ForeignKey { .. } | Object::Trigger { .. }) = object
            else {
                shown.push(self.shown_part(object)?);
                continue;
            };
            let relation = self.current(object.owner())?;
            let name = self.shown_name(&relation);
            shown.push(match object {
                Object::ForeignKey { constraint, .. } => {
                    let key = relation.foreign_keys.iter().find(|key| key.oid == *constraint);
                    let key = key.map_or("?", |key| key.name.as_str());
                    format!("constraint {key} on table {name}")
                }
                Object::Trigger { trigger, .. } => {
                    let trigger = relation.triggers.iter().find(|known| known.oid == *trigger);
                    let trigger = trigger.map_or("?", |trigger| trigger.name.as_str());
                    format!("trigger {trigger} on table {name}")
                }
                _ => format!("{} {name}", relation.kind.word()),
            });
        }
        Ok(shown)
    }

    /// Returns a line for each dependent, with the object that it depends on.
    pub(crate) fn lines(&mut self, dependents: &[Dependent]) -> Result<Vec<String>> {
        let shown = self.shown(dependents)?;
        let each = shown.iter().zip(dependents);
        Ok(each.map(|(what, on)| format!("{what} depends on {}", on.on)).collect())
    }

    /// Drops the dependents of `what`, which is dropped itself. Without CASCADE any dependent is an
    /// error.
    pub(crate) fn drop_dependents(
        &mut self,
        what: &str,
        find: &dyn Fn(&mut Self) -> Result<Vec<Dependent>>,
        cascade: bool,
    ) -> Result<()> {
        let dependents = find(self)?;
        if dependents.is_empty() || seeded_bug!("dependents_forgotten") {
            return Ok(());
        }
        if !cascade {
            return Err(still_needed(what, &self.lines(&dependents)?));
        }
        let owners = |found: &Vec<Dependent>| -> Vec<Oid> {
            found.iter().map(|dependent| dependent.object.owner()).collect()
        };
        let dependents = self.lock_found(TableLockMode::AccessExclusive, find, owners)?;
        let shown = self.shown(&dependents)?;
        self.cascades(&shown);
        for dependent in dependents.into_iter().rev() {
            match dependent.object {
                Object::Default { .. }
                | Object::Column { .. }
                | Object::Check { .. }
                | Object::Index { .. }
                | Object::Domain(_)
                | Object::DomainCheck { .. } => self.remove_part(&dependent.object)?,
                Object::View(view) => {
                    let view = self.current(view)?;
                    match view.kind {
                        RelationKind::MaterializedView => self.drop_table(&view)?,
                        _ => self.remove(view.oid)?,
                    }
                }
                Object::Function(function) => self.remove_function(function)?,
                Object::Trigger { table, trigger } => self.remove_trigger(table, trigger)?,
                Object::ForeignKey { table, constraint } => {
                    // A pending check of the dropped foreign key then does nothing.
                    self.remove_foreign_key(table, constraint)?;
                }
            }
        }
        Ok(())
    }

    /// Sends a notice about the other objects that are dropped, too.
    pub(crate) fn cascades(&mut self, shown: &[String]) {
        let (message, detail) = match shown {
            [] => return,
            [one] => (format!("drop cascades to {one}"), None),
            more => {
                let lines: Vec<String> =
                    more.iter().map(|what| format!("drop cascades to {what}")).collect();
                (format!("drop cascades to {} other objects", more.len()), Some(lines.join("\n")))
            }
        };
        let mut notice = SqlError::new("00000", message).with_severity(Severity::Notice);
        notice.detail = detail;
        self.session.send(self.out, &notice);
    }
}

/// Returns the error 2BP01 for an object with dependents.
pub(crate) fn still_needed(what: &str, lines: &[String]) -> SqlError {
    let (what, it) = match what {
        "" => ("desired object(s)", "them"),
        what => (what, "it"),
    };
    let message = format!("cannot drop {what} because other objects depend on {it}");
    SqlError::new("2BP01", message)
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Returns the sequences that belong to columns of a table, the newest first.
fn owned_sequences(state: &niwaki_catalog::CatalogState, table: Oid) -> Vec<Oid> {
    let belongs = |relation: &&Arc<Relation>| {
        let owner = relation.sequence.as_ref().and_then(|sequence| sequence.owned_by);
        owner.is_some_and(|(owner, _)| owner == table)
    };
    state.in_order().into_iter().rev().filter(belongs).map(|relation| relation.oid).collect()
}
