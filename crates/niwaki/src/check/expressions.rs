//! Check of stored expressions that cannot be read any more, or that name missing objects
//! (invariant T4).

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation};
use niwaki_sql::{
    Named, deparse_domain_check, deparse_expression, objects_named, trigger_condition,
};

use crate::Result;

/// Checks all stored expressions. Returns for each faulty one its owner (a relation, type or
/// function) and the fault.
pub(crate) fn unreadable_expressions(state: &CatalogState) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut judge = |owner: &str, text: &str, read: Result<String>| {
        let wrong = read.and_then(|_| missing(text, state));
        match wrong {
            Ok(None) => {}
            Ok(Some(what)) => found.push((owner.to_owned(), format!("{text} names {what}"))),
            Err(error) => found.push((owner.to_owned(), format!("{text}: {}", error.message))),
        }
    };
    // Stored texts name objects by number, so no search path changes their meaning. Older texts
    // have names instead: a path of all schemas finds these names wherever they are.
    let schemas: Vec<String> = state.schemas().map(|schema| schema.name.clone()).collect();
    let path = state.search_path(&schemas, "");
    for relation in state.in_order() {
        for (_, column) in relation.visible_columns() {
            let Some(text) = &column.default else { continue };
            let over = column.generated.then_some(relation);
            let target = Some((column.column_type(), column.name.as_str()));
            judge(&relation.name, text, deparse_expression(text, over, target, state, &path));
        }
        for check in &relation.checks {
            let (text, over) = (&check.expression, Some(relation));
            judge(&relation.name, text, deparse_expression(text, over, None, state, &path));
        }
        for text in relation.triggers.iter().filter_map(|trigger| trigger.when.as_deref()) {
            // T3 checks whether the condition can be read.
            let shown = trigger_condition(text, relation, state, &path, false);
            judge(&relation.name, text, Ok(shown));
        }
        if let Some((index, table)) = of_index(relation, state) {
            for expression in index.expressions() {
                let text = &expression.text;
                judge(
                    &relation.name,
                    text,
                    deparse_expression(text, Some(table), None, state, &path),
                );
            }
        }
    }
    for definition in state.user_types() {
        let Some(domain) = definition.domain() else { continue };
        let (name, below) = (definition.name.as_str(), domain.below());
        if let Some(text) = &domain.default {
            judge(name, text, deparse_expression(text, None, Some((below, name)), state, &path));
        }
        for check in &domain.checks {
            let text = &check.expression;
            judge(name, text, deparse_domain_check(text, below, state, &path, false));
        }
    }
    for function in state.functions() {
        for text in function.inputs().iter().filter_map(|input| input.default.as_deref()) {
            judge(&function.name, text, deparse_expression(text, None, None, state, &path));
        }
    }
    found
}

fn of_index<'s>(
    relation: &'s Relation,
    state: &'s CatalogState,
) -> Option<(&'s niwaki_catalog::IndexDefinition, &'s Arc<Relation>)> {
    let index = relation.index.as_ref()?;
    Some((index, state.relation(index.table)?))
}

/// Finds an object that a text names and that does not exist. Objects in literals may be missing,
/// because a literal may hold any number.
fn missing(text: &str, state: &CatalogState) -> Result<Option<String>> {
    let gone = |named: &Named| match named {
        Named::Function(oid) => state.function(*oid).is_none(),
        Named::Type(oid) => state.user_type(*oid).is_none(),
        Named::Object(_) => false,
    };
    let found = objects_named(text)?.into_iter().find(gone);
    Ok(found.map(|named| match named {
        Named::Function(Oid(oid)) => format!("function {oid}, which is not there"),
        Named::Type(Oid(oid)) | Named::Object(Oid(oid)) => {
            format!("type {oid}, which is not there")
        }
    }))
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::PUBLIC_SCHEMA;

    use crate::Database;

    #[test]
    fn texts_of_before_there_were_numbers_are_read_by_the_search_path() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        for statement in [
            "create schema a",
            "create function f() returns int language sql immutable as 'select 1'",
            "create function a.f() returns int language sql immutable as 'select 2'",
            "create type mood as enum ('sad', 'ok')",
            "create table t (id serial, a int, c text)",
            "begin",
        ] {
            session.execute(statement, ()).unwrap();
        }
        // Defaults as they were stored before numbers.
        let state = session.inner.state();
        let mut table = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
        table.columns[0].default = Some("nextval('public.t_id_seq'::regclass)".to_owned());
        table.columns[1].default = Some("f()".to_owned());
        table.columns[2].default = Some("'ok'::mood::text || lower('X')".to_owned());
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.update(transaction, table).unwrap();
        session.execute("commit", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        let insert = |session: &mut crate::Session| {
            let row = session.query_one("insert into t default values returning *", ()).unwrap();
            let shown: i32 = row.get(1).unwrap();
            (row.get::<i32>(0).unwrap(), shown, row.get::<String>(2).unwrap())
        };
        assert_eq!(insert(&mut session), (1, 1, "okx".to_owned()));
        session.execute("set search_path = a, public", ()).unwrap();
        assert_eq!(insert(&mut session), (2, 2, "okx".to_owned()));
        for statement in ["alter function f() rename to g", "alter type mood rename to feeling"] {
            let refused = session.execute(statement, ()).unwrap_err();
            assert_eq!(refused.sqlstate, "0A000", "{statement}");
        }
        let refused = session.execute("drop sequence t_id_seq", ()).unwrap_err();
        assert_eq!(refused.sqlstate, "2BP01");
        session.execute("alter sequence t_id_seq rename to s", ()).unwrap();
        assert_eq!(insert(&mut session).0, 3);
    }

    #[test]
    fn expressions_that_name_what_is_not_there_are_found() {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        for statement in [
            "create function f() returns int language sql immutable as 'select 1'",
            "create type mood as enum ('sad')",
            "create domain d as int default f() check (value > f())",
            "create table t (a int default f(), b int check (b > f()), c text default 'sad'::mood)",
            "create index i on t (b) where c = 'x' or 'sad'::mood = 'sad'",
            "create function g(a int default f()) returns int language sql as 'select a'",
        ] {
            session.execute(statement, ()).unwrap();
        }
        assert_eq!(database.check().unwrap().violations, []);
        // No statement makes this state: function and type go, but the texts that name them stay.
        session.execute("begin", ()).unwrap();
        let state = session.inner.state();
        let function = state.functions().into_iter().find(|found| found.name == "f").unwrap().oid;
        let mood = state.lookup_type(PUBLIC_SCHEMA, "mood").unwrap().oid;
        let (transaction, catalog) = session.inner.transaction_and_catalog().unwrap();
        catalog.remove_function(transaction, function).unwrap();
        catalog.remove_type(transaction, mood).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        let mut shown: Vec<(&str, &str)> =
            found.iter().map(|found| (&*found.invariant, &*found.file)).collect();
        shown.sort_unstable();
        let expected = [
            ("T4", "d"),
            ("T4", "d"),
            ("T4", "g"),
            ("T4", "i"),
            ("T4", "t"),
            ("T4", "t"),
            ("T4", "t"),
        ];
        assert_eq!(shown, expected, "{found:?}");
    }
}
