//! Check of partitions (invariant T5): their columns, indexes and rows fit the partitioned table.

use niwaki_catalog::{CatalogState, Relation};
use niwaki_session::Session;

use crate::Result;

/// Checks a partition, and returns what is wrong with it. Reads the whole partition.
pub(crate) fn misplaced(
    session: &mut Session,
    state: &CatalogState,
    partition: &Relation,
) -> Result<Option<String>> {
    let Some(of) = &partition.partition_of else { return Ok(None) };
    let parent = state.relation(of.parent);
    let Some((parent, partitions)) = parent.and_then(|p| Some((p, p.partitions.as_ref()?))) else {
        return Ok(Some(format!("relation {} has no partitions", of.parent)));
    };
    if !partitions.members.iter().any(|member| member.relation.oid == partition.oid) {
        return Ok(Some("its bound cannot be read".to_owned()));
    }
    let columns = |relation: &Relation| {
        let mut all: Vec<(String, _)> = relation
            .visible_columns()
            .map(|(_, column)| (column.name.clone(), column.type_oid))
            .collect();
        all.sort();
        all
    };
    if columns(parent) != columns(partition) {
        return Ok(Some(format!("its columns are not those of {}", parent.name)));
    }
    for index in &parent.indexes {
        let parts = partition.indexes.iter();
        let parts = parts.filter(|own| own.definition.part_of == Some(index.oid));
        let parts: Vec<_> = parts.collect();
        // An index that is not valid may wait for its parts.
        if parts.len() > 1 || parts.is_empty() && index.definition.valid {
            let found = parts.len();
            return Ok(Some(format!("it has {found} parts of index {}", index.name)));
        }
        if index.definition.valid && parts.iter().any(|part| !part.definition.valid) {
            return Ok(Some(format!("its part of index {} is not valid", index.name)));
        }
    }
    if let Some(wrong) = wrong_parts(parent, partition) {
        return Ok(Some(wrong));
    }
    session.ensure_transaction()?;
    let belongs = session.belongs(partition.oid);
    session.end_implicit()?;
    Ok((!belongs?).then(|| "a row belongs to another partition".to_owned()))
}

/// Checks the partition's parts of the foreign keys and triggers of its table, and returns what is
/// wrong.
fn wrong_parts(parent: &Relation, partition: &Relation) -> Option<String> {
    for key in &parent.foreign_keys {
        let parts = partition.foreign_keys.iter().filter(|own| own.part_of == Some(key.oid));
        let found = parts.clone().filter(|own| own.references == key.references).count();
        if found != 1 || parts.count() != 1 {
            return Some(format!("it has {found} parts of foreign key {}", key.name));
        }
    }
    for trigger in &parent.triggers {
        let parts = partition.triggers.iter().filter(|own| own.part_of == Some(trigger.oid));
        let found = parts.filter(|own| own.function == trigger.function).count();
        if found != 1 {
            return Some(format!("it has {found} parts of trigger {}", trigger.name));
        }
    }
    let keys = partition.foreign_keys.iter().filter_map(|key| Some((&key.name, key.part_of?)));
    let mut lost = keys.filter(|(_, of)| parent.foreign_keys.iter().all(|key| key.oid != *of));
    if let Some((name, _)) = lost.next() {
        return Some(format!("foreign key {name} is part of one that {} has not", parent.name));
    }
    let triggers = partition.triggers.iter().filter_map(|own| Some((&own.name, own.part_of?)));
    let mut lost = triggers.filter(|(_, of)| parent.triggers.iter().all(|own| own.oid != *of));
    lost.next()
        .map(|(name, _)| format!("trigger {name} is part of one that {} has not", parent.name))
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::{PUBLIC_SCHEMA, PartitionBound, RangeValue};

    use super::misplaced;
    use crate::Database;

    /// Makes states that no statement makes: other bounds, an index or a foreign key without a
    /// part, another ancestor table.
    #[test]
    fn partitions_that_are_none_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int primary key) partition by range (a)", ()).unwrap();
        session.execute("create table u partition of t for values from (0) to (10)", ()).unwrap();
        session.execute("create table r (a int primary key)", ()).unwrap();
        session.execute("insert into r values (1), (9)", ()).unwrap();
        session.execute("alter table t add foreign key (a) references r", ()).unwrap();
        let function =
            "create function f() returns trigger language plpgsql as $$ begin return new; end $$";
        session.execute(function, ()).unwrap();
        let trigger = "create trigger g before insert on t for each row execute function f()";
        session.execute(trigger, ()).unwrap();
        session.execute("insert into t values (1), (9)", ()).unwrap();
        // An invalid index that waits for its parts is correct.
        session.execute("create unique index waits on only t (a)", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        let value = |text: &str| vec![RangeValue::Value(text.to_owned())];
        for (wrong, detail) in [
            (0, "a row belongs to another partition"),
            (1, "its bound cannot be read"),
            (2, "it has 0 parts of index t_pkey"),
            (3, "its columns are not those of t"),
            (4, "has no partitions"),
            (5, "it has 0 parts of index waits"),
            (6, "its part of index t_pkey is not valid"),
            (7, "it has 0 parts of foreign key t_a_fkey"),
            (8, "it has 0 parts of trigger g"),
            (9, "foreign key other is part of one that t has not"),
            (10, "trigger other is part of one that t has not"),
        ] {
            session.execute("begin", ()).unwrap();
            let state = session.inner.state();
            let mut table = state.lookup(PUBLIC_SCHEMA, "u").unwrap().definition.clone();
            let mut index = state.lookup(PUBLIC_SCHEMA, "u_pkey").unwrap().definition.clone();
            let of = table.partition_of.as_mut().unwrap();
            match wrong {
                0 => of.bound = PartitionBound::Range { from: value("0"), to: value("5") },
                1 => of.bound = PartitionBound::Range { from: value("x"), to: value("5") },
                2 => index.index.as_mut().unwrap().part_of = None,
                3 => table.columns[0].name = "b".to_owned(),
                4 => of.parent = table.oid,
                5 => {
                    index = state.lookup(PUBLIC_SCHEMA, "waits").unwrap().definition.clone();
                    index.index.as_mut().unwrap().valid = true;
                }
                6 => index.index.as_mut().unwrap().valid = false,
                7 => table.foreign_keys.clear(),
                8 => table.triggers.clear(),
                9 => {
                    let mut other = table.foreign_keys[0].clone();
                    (other.name, other.oid) = ("other".to_owned(), table.oid);
                    other.part_of = Some(table.oid);
                    table.foreign_keys.push(other);
                }
                _ => {
                    let mut other = table.triggers[0].clone();
                    (other.name, other.part_of) = ("other".to_owned(), Some(table.oid));
                    table.triggers.push(other);
                }
            }
            let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
            catalog.update(transaction, index).unwrap();
            if wrong != 4 {
                catalog.update(transaction, table).unwrap();
            } else {
                let mut above = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
                above.partition_key = None;
                catalog.update(transaction, above).unwrap();
            }
            let state = session.inner.state();
            let partition = state.lookup(PUBLIC_SCHEMA, "u").unwrap();
            let found = match wrong {
                // Rows are read only once the definition is committed.
                0 => {
                    session.execute("commit", ()).unwrap();
                    let found = database.check().unwrap().violations;
                    assert_eq!(found.len(), 1, "{found:?}");
                    assert_eq!((&*found[0].invariant, &*found[0].file), ("T5", "u"));
                    session.execute("begin", ()).unwrap();
                    let mut table = partition.definition.clone();
                    table.partition_of.as_mut().unwrap().bound =
                        PartitionBound::Range { from: value("0"), to: value("10") };
                    let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
                    catalog.update(transaction, table).unwrap();
                    session.execute("commit", ()).unwrap();
                    session.execute("begin", ()).unwrap();
                    found[0].detail.clone()
                }
                _ => misplaced(&mut session.inner, &state, partition).unwrap().unwrap(),
            };
            assert!(found.contains(detail), "{wrong}: {found}");
            session.execute("rollback", ()).unwrap();
        }
        assert_eq!(database.check().unwrap().violations, []);
    }
}
