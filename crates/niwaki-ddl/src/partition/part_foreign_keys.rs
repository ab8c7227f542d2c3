//! Foreign keys of partitioned tables: each partition has a foreign key of its own, as a part of
//! the one above it.
//!
//! The part checks that the rows referenced by its partition exist. Actions on referring rows
//! belong to the topmost foreign key, which handles all partitions at once.

use niwaki_catalog::{ColumnMap, ForeignKey, Oid, Relation};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::constraint::ConstraintNames;
use crate::definer::Definer;
use crate::generated_names;

impl Definer<'_> {
    /// Gives a partition the foreign keys of its table. Returns the new ones, which may not hold
    /// yet.
    pub(crate) fn part_foreign_keys(
        &mut self,
        parent: &Relation,
        partition: Oid,
    ) -> Result<Vec<Oid>> {
        let mut added = Vec::new();
        for key in &self.current(parent.oid)?.foreign_keys {
            self.lock_referenced(key.references)?;
            added.extend(self.add_key_part(key, parent, partition)?);
        }
        Ok(added)
    }

    /// Locks the referenced table with its partitions, so that no referenced row goes while the key
    /// is proved. A DELETE may name a partition, and then locks that partition alone.
    pub(crate) fn lock_referenced(&mut self, referenced: Oid) -> Result<()> {
        let referenced = self.current(referenced)?;
        self.lock_tree(&referenced, TableLockMode::ShareRowExclusive)
    }

    /// Makes a foreign key of a partition a part of a foreign key of its table. Uses an existing
    /// one, or makes a new one and returns its number.
    pub(crate) fn add_key_part(
        &mut self,
        above: &ForeignKey,
        parent: &Relation,
        partition: Oid,
    ) -> Result<Option<Oid>> {
        let own = self.current(partition)?;
        let wanted = moved(above, parent, &own)?;
        let mut definition = own.definition.clone();
        let same = |key: &&mut ForeignKey| is_same(key, &wanted);
        if let Some(found) = definition.foreign_keys.iter_mut().find(same) {
            found.part_of = Some(above.oid);
            self.update(definition)?;
            return Ok(None);
        }
        let mut taken = ConstraintNames::of(&own.definition, &own.indexes);
        let name = if let Ok(()) = taken.take(&above.name, &own.name) {
            above.name.clone()
        } else {
            let columns = wanted.columns.iter();
            let columns = columns.filter_map(|column| own.columns.get(usize::from(*column)));
            let shown: Vec<String> = columns.map(|column| column.name.clone()).collect();
            self.free_key_name(&own, &mut taken, &generated_names::joined(&shown))
        };
        let oid = self.session.new_oid();
        let key = ForeignKey { oid, name, part_of: Some(above.oid), comment: None, ..wanted };
        definition.foreign_keys.push(key.clone());
        self.update(definition)?;
        for member in own.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.add_key_part(&key, &own, member.relation.oid)?;
        }
        Ok(Some(oid))
    }

    /// Returns the parts of a foreign key in partitions at any depth, as pairs of table and number.
    pub(crate) fn key_parts(&mut self, above: Oid) -> Vec<(Oid, Oid)> {
        let state = self.state();
        let keys = state.foreign_keys();
        let mut parts = Vec::new();
        let mut next = vec![above];
        // Ends: each foreign key is a part of one other at most.
        while let Some(above) = next.pop() {
            for (table, key) in keys.iter().filter(|(_, key)| key.part_of == Some(above)) {
                parts.push((table.oid, key.oid));
                next.push(key.oid);
            }
        }
        parts
    }

    /// Removes a foreign key and its parts.
    pub(crate) fn remove_foreign_key(&mut self, table: Oid, key: Oid) -> Result<()> {
        let mut going = self.key_parts(key);
        going.push((table, key));
        for (table, key) in going {
            self.lock(table, TableLockMode::AccessExclusive)?;
            let mut definition = self.current(table)?.definition.clone();
            definition.foreign_keys.retain(|other| other.oid != key);
            self.update(definition)?;
        }
        Ok(())
    }

    /// Fails if rows refer to rows of a removed partition through `parent`, or through a table
    /// above `parent`.
    pub(crate) fn prove_without(&mut self, parent: &Relation, partition: &Relation) -> Result<()> {
        let state = self.state();
        let mut above = Some(parent);
        while let Some(table) = above {
            for oid in state.foreign_keys_to(table.oid) {
                let Some((referring, key)) = state.foreign_key(*oid) else { continue };
                if key.part_of.is_some() {
                    continue;
                }
                let mode = TableLockMode::ShareRowExclusive;
                self.lock(referring.oid, mode)?;
                // Others may have changed it, or dropped it, before.
                let Some(referring) = self.state().relation(referring.oid).cloned() else {
                    continue;
                };
                self.lock_tree(&referring, mode)?;
                let now = self.state();
                let orphan = self.session.at_latest(|session| session.orphan_key(&now, *oid))?;
                if let Some(row) = orphan {
                    return Err(self.session.refused_removal(&now, *oid, partition, &row));
                }
            }
            above =
                table.partition_of.as_ref().and_then(|of| state.relation(of.parent)).map(|a| &**a);
        }
        Ok(())
    }

    /// Makes the foreign keys of a former partition independent of the ones above.
    pub(crate) fn release_foreign_keys(&mut self, partition: Oid) -> Result<()> {
        let mut definition = self.current(partition)?.definition.clone();
        if definition.foreign_keys.iter().all(|key| key.part_of.is_none()) {
            return Ok(());
        }
        definition.foreign_keys.iter_mut().for_each(|key| key.part_of = None);
        self.update(definition)
    }

    /// Fails with PostgreSQL's XX000 for a foreign key that is a part of another one.
    pub(crate) fn refuse_part(&mut self, table: &Relation, key: &ForeignKey) -> Result<()> {
        let Some(above) = key.part_of else { return Ok(()) };
        let state = self.state();
        let Some((parent, above)) = state.foreign_key(above) else { return Ok(()) };
        let message =
            format!("cannot alter constraint \"{}\" on relation \"{}\"", key.name, table.name);
        Err(SqlError::new("XX000", message)
            .with_detail(format!(
                "Constraint \"{}\" is derived from constraint \"{}\" of relation \"{}\".",
                key.name, above.name, parent.name
            ))
            .with_hint("You may alter the constraint it derives from, instead."))
    }
}

/// Returns a foreign key over a partition's own columns.
fn moved(key: &ForeignKey, parent: &Relation, own: &Relation) -> Result<ForeignKey> {
    let map = ColumnMap::between(&parent.definition, &own.definition);
    let places = |columns: &[u16]| -> Result<Vec<u16>> {
        let place = |column: &u16| {
            let place = map.place(usize::from(*column)).and_then(|at| u16::try_from(at).ok());
            place.ok_or_else(|| SqlError::internal("a partition without a column of its table"))
        };
        columns.iter().map(place).collect()
    };
    let (columns, set_columns) = (places(&key.columns)?, places(&key.set_columns)?);
    Ok(ForeignKey { columns, set_columns, ..key.clone() })
}

/// Returns whether a foreign key is not part of another one, is valid, and equals the wanted one.
fn is_same(key: &ForeignKey, wanted: &ForeignKey) -> bool {
    let pairs = |key: &ForeignKey| {
        let mut pairs: Vec<(u16, u16)> =
            key.columns.iter().copied().zip(key.referenced.iter().copied()).collect();
        pairs.sort_unstable();
        pairs
    };
    key.part_of.is_none()
        && !key.not_valid
        && key.references == wanted.references
        && pairs(key) == pairs(wanted)
        && key.on_update == wanted.on_update
        && key.on_delete == wanted.on_delete
        && key.set_columns == wanted.set_columns
        && key.match_full == wanted.match_full
        && key.check_time == wanted.check_time
}
