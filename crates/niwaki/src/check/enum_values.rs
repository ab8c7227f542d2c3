//! Check of the columns of user-defined types (invariant T1). Each enum value has a label, and a
//! column of a domain stores the base type of the domain.

use niwaki_catalog::{CatalogState, Column, Oid, Relation};
use niwaki_session::{Session, type_in_sql};
use niwaki_sql::types::format_type;
use niwaki_types::{ColumnType, Datum, TypeOid, quote_identifier};

use crate::Result;

/// Checks a column of a user-defined type, or of arrays of one, and returns what is wrong.
/// Reads the whole table.
pub(crate) fn unlabelled(
    session: &mut Session,
    state: &CatalogState,
    table: &Relation,
    column: &Column,
) -> Result<Option<String>> {
    let oid = TypeOid(column.type_oid);
    if let Some(wrong) = wrong_domain(state, column) {
        return Ok(Some(wrong));
    }
    let Some(number) = oid.user_number().filter(|_| !table.unpopulated) else {
        return Ok(None);
    };
    let name = &column.name;
    if state.user_type(Oid(number)).is_none() {
        return Ok(Some(format!("column {name} is of type {number}, which does not exist")));
    }
    // Composite values were checked where their rows were read.
    if oid.element().unwrap_or(oid).is_composite() {
        return Ok(None);
    }
    // Qualified, since columns of the table may have any names.
    let column = format!("t.{}", quote_identifier(name));
    let (value, from) = match oid.element() {
        None => (column, String::new()),
        Some(_) => ("u.element".to_owned(), format!(", unnest({column}) u(element)")),
    };
    let label_type = ColumnType::new(oid.element().unwrap_or(oid));
    let sql = format!(
        "SELECT {value} FROM {} t{from} WHERE {value} <> ALL (enum_range(NULL::{})) LIMIT 1",
        session.qualified_name(table),
        type_in_sql(state, label_type)
    );
    session.ensure_transaction()?;
    let found = session.internal_query(&sql)?.into_iter().flatten().next();
    session.end_implicit()?;
    Ok(found.map(|value| {
        let position = if let Datum::Enum(_, position) = value { position } else { 0 };
        format!("column {name} has the position {position}, which is none of a label")
    }))
}

/// Checks the domain of a column, and returns what is wrong: the column must store the base type of
/// the domain. Values need not satisfy the constraints of the domain. The constraints may be
/// unproved, and their result may change with the functions that they call.
fn wrong_domain(state: &CatalogState, column: &Column) -> Option<String> {
    let kind = column.column_type();
    let domain = kind.domain?;
    let Some(definition) = state.domain(domain) else {
        let number = domain.user_number().unwrap_or_default();
        return Some(format!("column {} is of domain {number}, which does not exist", column.name));
    };
    let base = definition.base();
    (ColumnType { domain: None, ..kind } != base).then(|| {
        let (stored, made_of) = (format_type(kind), format_type(base));
        format!("column {} stores {stored}, but its domain is made of {made_of}", column.name)
    })
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::{DomainDefinition, TypeDefinition, TypeKind};

    use crate::Database;

    #[test]
    fn values_without_a_label_are_found() {
        for (column, value) in [("mood", "ok"), ("mood[]", "{sad,NULL,ok}")] {
            let database = Database::in_memory_without_threads().unwrap();
            let mut session = database.session();
            let mut run = |sql: &str| session.execute(sql, ()).unwrap();
            run("create type mood as enum ('sad', 'ok')");
            run(&format!("create table t (x {column}, t int, u int, element int, e int)"));
            run(&format!("insert into t values ('{value}'), (null)"));
            assert_eq!(database.check().unwrap().violations, []);
            run("begin");
            let state = session.inner.state().clone();
            let known = state.user_types().next().unwrap();
            let kind = TypeKind::Enum(known.labels()[..1].to_vec());
            let fewer = TypeDefinition { kind, ..TypeDefinition::clone(known) };
            let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
            catalog.update_type(transaction, fewer).unwrap();
            session.execute("commit", ()).unwrap();
            let found = database.check().unwrap().violations;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((&*found[0].invariant, &*found[0].file), ("T1", "t"));
            assert!(found[0].detail.starts_with("column x has the position "), "{found:?}");
        }
    }

    #[test]
    fn columns_that_are_not_what_their_domain_is_made_of_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        let mut run = |sql: &str| session.execute(sql, ()).unwrap();
        run("create domain short as varchar(5)");
        run("create table t (x short)");
        assert_eq!(database.check().unwrap().violations, []);
        run("begin");
        let state = session.inner.state().clone();
        let known = state.user_types().next().unwrap();
        let domain = DomainDefinition { typmod: 8, ..known.domain().unwrap().clone() };
        let other = TypeDefinition {
            kind: TypeKind::Domain(Box::new(domain)),
            ..TypeDefinition::clone(known)
        };
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.update_type(transaction, other).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T1", "t"));
        let detail =
            "column x stores character varying(5), but its domain is made of character varying(4)";
        assert_eq!(found[0].detail, detail);
    }
}
