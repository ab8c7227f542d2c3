//! Checks of views that cannot be read any more (invariant T2), and of triggers that cannot be
//! fired (T3).

use std::sync::Arc;

use niwaki_catalog::{CatalogState, FunctionDefinition, FunctionLanguage, Relation, Trigger};
use niwaki_session::Session;

use crate::Result;

/// Checks a view, and returns what is wrong with it.
pub(crate) fn unreadable(session: &mut Session, view: &Relation) -> Result<Option<String>> {
    session.ensure_transaction()?;
    let found = session.with_analysis(|context| niwaki_sql::check_view(view, context));
    session.end_implicit()?;
    Ok(found.err().map(|error| error.message.clone()))
}

/// Checks a trigger of a table, and returns what is wrong with it.
pub(crate) fn unfireable(
    session: &mut Session,
    table: &Arc<Relation>,
    trigger: &Trigger,
) -> Result<Option<String>> {
    session.ensure_transaction()?;
    let found =
        session.with_analysis(|context| niwaki_sql::check_stored_trigger(trigger, table, context));
    session.end_implicit()?;
    Ok(found.err().map(|error| error.message.clone()))
}

/// Checks a function, and returns what is wrong with it.
pub(crate) fn unrunnable(function: &FunctionDefinition, state: &CatalogState) -> Option<String> {
    let name = &function.name;
    for oid in function.types() {
        let row = state.relation(oid).is_some_and(|relation| relation.kind.has_row_type());
        if state.user_type(oid).is_none() && !row {
            return Some(format!("function {name} names type {oid}, which is not there"));
        }
    }
    let found = match function.language {
        FunctionLanguage::Sql => niwaki_sql::parse::parse(&function.body).map(|_| ()),
        FunctionLanguage::PlPgSql
            if !function.is_for_triggers() || !function.arguments.is_empty() =>
        {
            return Some(format!("function {name} is none for triggers"));
        }
        FunctionLanguage::PlPgSql => niwaki_sql::read_body(&function.body).map(|_| ()),
    };
    found.err().map(|error| format!("function {name}: {}", error.message))
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::PUBLIC_SCHEMA;

    use crate::Database;

    #[test]
    fn views_that_cannot_be_read_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int)", ()).unwrap();
        session.execute("create view v as select a from t", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        // No statement makes this state: a column of another type under the view.
        session.execute("begin", ()).unwrap();
        let state = session.inner.state();
        let mut table = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
        table.columns[0].type_oid = 20;
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.update(transaction, table).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T2", "v"));
    }

    #[test]
    fn triggers_that_cannot_be_fired_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int, b int)", ()).unwrap();
        let function = "create function f() returns trigger language plpgsql as \
            'begin new.b := new.a; return new; end'";
        session.execute(function, ()).unwrap();
        let trigger = "create trigger r before update of a on t for each row when (new.a > 1) \
            execute function f()";
        session.execute(trigger, ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        let mut broken = Vec::new();
        for wrong in 0..4 {
            // No statement makes these states.
            session.execute("begin", ()).unwrap();
            let state = session.inner.state();
            let mut table = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
            let trigger = &mut table.triggers[0];
            match wrong {
                0 => trigger.columns = vec![7],
                1 => trigger.when = Some("new.c > 1".to_owned()),
                2 => trigger.function = niwaki_catalog::Oid(99_999),
                _ => trigger.update = false,
            }
            let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
            let before = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
            catalog.update(transaction, table).unwrap();
            session.execute("commit", ()).unwrap();
            let found = database.check().unwrap().violations;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((&*found[0].invariant, &*found[0].file), ("T3", "t"));
            broken.push(found[0].detail.clone());
            session.execute("begin", ()).unwrap();
            let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
            catalog.update(transaction, before).unwrap();
            session.execute("commit", ()).unwrap();
        }
        broken.dedup();
        assert_eq!(broken.len(), 4, "{broken:?}");
        // The body of the function is invalid.
        session.execute("begin", ()).unwrap();
        let state = session.inner.state();
        let function = state.functions()[0];
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        let body = "return".to_owned();
        let function = niwaki_catalog::FunctionDefinition { body, ..(**function).clone() };
        catalog.update_function(transaction, function).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T3", "f"));
    }

    #[test]
    fn functions_of_types_that_are_not_there_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        session.execute("create type pair as (x int, y int)", ()).unwrap();
        session.execute("create table t (a int)", ()).unwrap();
        let function = "create function f(p pair, r t) returns pair language sql as 'select p'";
        session.execute(function, ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        // No statement makes this state: the function loses one of its types.
        session.execute("begin", ()).unwrap();
        let state = session.inner.state();
        let pair = state.lookup_type(PUBLIC_SCHEMA, "pair").unwrap().oid;
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.remove_type(transaction, pair).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T3", "f"));
        assert!(found[0].detail.contains("which is not there"), "{found:?}");
    }

    #[test]
    fn views_that_read_more_than_they_say_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int, b int, c int)", ()).unwrap();
        let view = "create view v as with x as (select a from t) \
            select count(*) over (partition by b) n, (select max(a) from x) from t";
        session.execute(view, ()).unwrap();
        session.execute("create view w as select n from v", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        // No statement makes this state: the view does not depend on a column any more.
        session.execute("begin", ()).unwrap();
        let state = session.inner.state();
        let mut view = state.lookup(PUBLIC_SCHEMA, "v").unwrap().definition.clone();
        let sources = &mut view.query.as_mut().unwrap().sources;
        assert_eq!(sources[0].columns, [0, 1]);
        sources[0].columns = vec![0];
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.update(transaction, view).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T2", "v"));
        assert!(found[0].detail.contains("reads more of relation"), "{found:?}");
    }
}
