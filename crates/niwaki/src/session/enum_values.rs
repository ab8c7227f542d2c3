//! Looking for values of enums that are no label of their type (invariant T1).

use niwaki_catalog::{CatalogState, Column, Oid, Relation};
use niwaki_types::{ColumnType, Datum, TypeOid, quote_identifier};

use super::Session;
use super::type_names::type_in_sql;
use crate::Result;

impl Session {
    /// What is wrong with a column of a user's type, or of arrays of one, if something is. Reads the table whole.
    pub(crate) fn unlabelled(
        &mut self,
        state: &CatalogState,
        table: &Relation,
        column: &Column,
    ) -> Result<Option<String>> {
        let oid = TypeOid(column.type_oid);
        let Some(number) = oid.user_number() else { return Ok(None) };
        let name = &column.name;
        if state.user_type(Oid(number)).is_none() {
            return Ok(Some(format!("column {name} is of type {number}, which does not exist")));
        }
        let (value, from) = match oid.element() {
            None => (quote_identifier(name), String::new()),
            Some(_) => ("e".to_owned(), format!(", unnest({}) e", quote_identifier(name))),
        };
        let label_type = ColumnType::new(oid.element().unwrap_or(oid));
        let sql = format!(
            "SELECT {value} FROM {}{from} WHERE {value} <> ALL (enum_range(NULL::{})) LIMIT 1",
            self.qualified_name(table),
            type_in_sql(state, label_type)
        );
        self.ensure_transaction()?;
        let found = self.internal_query(&sql)?.into_iter().flatten().next();
        self.end_implicit()?;
        Ok(found.map(|value| {
            let position = if let Datum::Enum(_, position) = value { position } else { 0 };
            format!("column {name} has the position {position}, which is none of a label")
        }))
    }
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::{TypeDefinition, TypeKind};

    use crate::Database;

    #[test]
    fn values_without_a_label_are_found() {
        for (column, value) in [("mood", "ok"), ("mood[]", "{sad,NULL,ok}")] {
            let database = Database::in_memory().unwrap();
            let mut session = database.session();
            let mut run = |sql: &str| session.execute(sql, ()).unwrap();
            run("create type mood as enum ('sad', 'ok')");
            run(&format!("create table t (x {column})"));
            run(&format!("insert into t values ('{value}'), (null)"));
            assert_eq!(database.check().unwrap().violations, []);
            run("begin");
            let state = session.catalog.state().clone();
            let known = state.user_types().next().unwrap();
            let TypeKind::Enum(labels) = &known.kind;
            let kind = TypeKind::Enum(labels[..1].to_vec());
            let fewer = TypeDefinition { kind, ..TypeDefinition::clone(known) };
            let transaction = session.transaction.as_ref().unwrap();
            session.catalog.update_type(transaction, fewer).unwrap();
            session.execute("commit", ()).unwrap();
            let found = database.check().unwrap().violations;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((&*found[0].invariant, &*found[0].file), ("T1", "t"));
            assert!(found[0].detail.starts_with("column x has the position "), "{found:?}");
        }
    }
}
