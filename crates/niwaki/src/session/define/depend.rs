//! What depends on what goes: refused, or gone with it (CASCADE).

use niwaki_catalog::{Oid, Relation};
use niwaki_sql::{Severity, SqlError};
use niwaki_txn::TableLockMode;

use super::Definer;
use crate::Result;
use crate::session::Session;

/// A foreign key that cannot stay.
pub(super) struct Dependent {
    /// The referencing table.
    pub(super) table: Oid,
    pub(super) constraint: Oid,
    /// What it depends on of what goes, as messages call it.
    pub(super) on: String,
}

impl Definer<'_> {
    /// Name of a relation, with its schema where the search path needs it.
    pub(super) fn shown_name(&mut self, relation: &Relation) -> String {
        let path = self.session.search_path();
        let state = self.state();
        let found = state.resolve(&path, None, &relation.name);
        if found.is_ok_and(|found| found.oid == relation.oid) {
            return relation.name.clone();
        }
        format!("{}.{}", self.session.schema_name(relation.schema), relation.name)
    }

    /// Foreign keys of other tables than `going` that reference one of these.
    pub(super) fn references_to(&mut self, going: &[Oid]) -> Result<Vec<Dependent>> {
        let state = self.state();
        let mut dependents = Vec::new();
        for oid in going {
            let on = self.current(*oid)?;
            for key in state.foreign_keys_to(*oid) {
                let Some((table, _)) = state.foreign_key(*key) else { continue };
                if !going.contains(&table.oid) {
                    let on = format!("table {}", self.shown_name(&on));
                    dependents.push(Dependent { table: table.oid, constraint: *key, on });
                }
            }
        }
        Ok(dependents)
    }

    /// Foreign keys that rest on an index, of the table itself too.
    pub(super) fn references_on(&mut self, index: &Relation) -> Vec<Dependent> {
        let state = self.state();
        let Some(table) = index.index.as_ref().map(|index| index.table) else { return Vec::new() };
        let keys = state.foreign_keys_to(table).iter().filter_map(|key| state.foreign_key(*key));
        let keys = keys.filter(|(_, key)| key.index == index.oid);
        let found: Vec<(Oid, Oid)> = keys.map(|(table, key)| (table.oid, key.oid)).collect();
        let on = format!("index {}", self.shown_name(index));
        let dependent = |(table, constraint)| Dependent { table, constraint, on: on.clone() };
        found.into_iter().map(dependent).collect()
    }

    /// Removes what depends on `what`, which goes; without CASCADE refuses if there is anything.
    pub(super) fn drop_dependents(
        &mut self,
        what: &str,
        dependents: Vec<Dependent>,
        cascade: bool,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        let mut shown = Vec::with_capacity(dependents.len());
        for dependent in &dependents {
            if cascade {
                self.lock(dependent.table, TableLockMode::AccessExclusive)?;
            }
            let table = self.current(dependent.table)?;
            let key = table.foreign_keys.iter().find(|key| key.oid == dependent.constraint);
            let name = key.map_or("?", |key| key.name.as_str()).to_owned();
            shown.push(format!("constraint {name} on table {}", self.shown_name(&table)));
        }
        if !cascade {
            let each = shown.iter().zip(&dependents);
            let lines: Vec<String> =
                each.map(|(what, on)| format!("{what} depends on {}", on.on)).collect();
            return Err(still_needed(what, &lines));
        }
        self.cascades(&shown);
        for dependent in dependents {
            let table = self.current(dependent.table)?;
            self.refuse_pending(&table, "ALTER TABLE")?;
            let mut definition = table.definition.clone();
            definition.foreign_keys.retain(|key| key.oid != dependent.constraint);
            self.update(definition)?;
        }
        Ok(())
    }

    /// Tells what goes too.
    pub(super) fn cascades(&mut self, shown: &[String]) {
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

impl Session {
    /// Takes away the foreign keys of other tables that reference a table that goes without being asked about.
    pub(super) fn release_references(&mut self, to: Oid) -> Result<()> {
        let state = self.catalog.state();
        for key in state.foreign_keys_to(to) {
            let Some((table, _)) = state.foreign_key(*key) else { continue };
            // It may have another one that was taken away just now.
            let state = self.catalog.state();
            let Some(table) = state.relation(table.oid) else { continue };
            let mut definition = table.definition.clone();
            definition.foreign_keys.retain(|other| other.oid != *key);
            self.update_definition(definition)?;
        }
        Ok(())
    }
}

/// 2BP01
pub(super) fn still_needed(what: &str, lines: &[String]) -> SqlError {
    let (what, it) = match what {
        "" => ("desired object(s)", "them"),
        what => (what, "it"),
    };
    let message = format!("cannot drop {what} because other objects depend on {it}");
    SqlError::new("2BP01", message)
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
