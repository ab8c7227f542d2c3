//! Looking for views that cannot be read any more (invariant T2).

use niwaki_catalog::Relation;

use super::Session;
use crate::Result;

impl Session {
    /// What is wrong with a view, if something is.
    pub(crate) fn unreadable(&mut self, view: &Relation) -> Result<Option<String>> {
        self.ensure_transaction()?;
        let found = self.with_analysis(|context| niwaki_sql::check_view(view, context));
        self.end_implicit()?;
        Ok(found.err().map(|error| error.message.clone()))
    }
}

#[cfg(test)]
mod tests {
    use niwaki_catalog::PUBLIC_SCHEMA;

    use crate::Database;

    #[test]
    fn views_that_cannot_be_read_are_found() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int)", ()).unwrap();
        session.execute("create view v as select a from t", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        // What no statement does: a column of another type, under the view.
        session.execute("begin", ()).unwrap();
        let state = session.catalog.state();
        let mut table = state.lookup(PUBLIC_SCHEMA, "t").unwrap().definition.clone();
        table.columns[0].type_oid = 20;
        let transaction = session.transaction.as_ref().unwrap();
        session.catalog.update(transaction, table).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T2", "v"));
    }

    #[test]
    fn views_that_read_more_than_they_say_are_found() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("create table t (a int, b int, c int)", ()).unwrap();
        let view = "create view v as with x as (select a from t) \
            select count(*) over (partition by b) n, (select max(a) from x) from t";
        session.execute(view, ()).unwrap();
        session.execute("create view w as select n from v", ()).unwrap();
        assert_eq!(database.check().unwrap().violations, []);
        // What no statement does: the view does not depend on a column any more.
        session.execute("begin", ()).unwrap();
        let state = session.catalog.state();
        let mut view = state.lookup(PUBLIC_SCHEMA, "v").unwrap().definition.clone();
        let sources = &mut view.query.as_mut().unwrap().sources;
        assert_eq!(sources[0].columns, [0, 1]);
        sources[0].columns = vec![0];
        let transaction = session.transaction.as_ref().unwrap();
        session.catalog.update(transaction, view).unwrap();
        session.execute("commit", ()).unwrap();
        let found = database.check().unwrap().violations;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].invariant, &*found[0].file), ("T2", "v"));
        assert!(found[0].detail.contains("reads more of relation"), "{found:?}");
    }
}
