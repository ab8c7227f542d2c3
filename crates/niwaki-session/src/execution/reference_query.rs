//! Queries that check foreign keys and carry out their actions.
//!
//! Each query is planned once in a session. The plan is kept as long as neither definitions nor
//! settings change.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation};
use niwaki_env::seeded_bug;
use niwaki_sql::store::Sees;
use niwaki_sql::{Planned, Result, RowSink, SqlError};
use niwaki_system::names::schema_name;
use niwaki_txn::Isolation;
use niwaki_types::{ColumnType, Datum, TypeOid, quote_identifier};

use crate::execution::foreign_keys::{Constraint, Following};
use crate::session::reference_plans::{Plan, QueryKind};
use crate::session::type_names::type_in_sql;

/// Row sink that counts rows.
#[derive(Default)]
struct Count(u64);

impl RowSink for Count {
    fn row(&mut self, _: &[Datum]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

fn column_of(relation: &Relation, position: u16) -> Result<(String, ColumnType)> {
    let column = relation.columns.get(usize::from(position));
    let column = column.ok_or_else(|| SqlError::internal("a foreign key without its column"))?;
    Ok((quote_identifier(&column.name), column.column_type()))
}

/// Returns `schema.name` as SQL text.
fn qualified(state: &CatalogState, relation: &Relation) -> String {
    let schema = quote_identifier(&schema_name(state, relation.schema));
    format!("{schema}.{}", quote_identifier(&relation.name))
}

impl Following<'_, '_, '_> {
    /// Locks the row that a referencing row's key names. Returns false when no such row exists.
    pub(crate) fn locks_referenced(
        &mut self,
        constraint: &Constraint<'_>,
        key: &[Datum],
    ) -> Result<bool> {
        match self.count(constraint, QueryKind::Referenced, key, Sees::OwnToWrite) {
            // The transaction sees the row, but the row was changed since. That does not matter
            // while its key is the same.
            Err(error)
                if error.sqlstate == "40001"
                    && self.end.transaction.isolation() == Isolation::RepeatableRead =>
            {
                let now = self.count(constraint, QueryKind::Referenced, key, Sees::Latest)?;
                if now > 0 { Ok(true) } else { Err(error) }
            }
            found => Ok(found? > 0),
        }
    }

    /// Returns whether a row of the referencing table has this key.
    pub(crate) fn is_referring(
        &mut self,
        constraint: &Constraint<'_>,
        key: &[Datum],
    ) -> Result<bool> {
        Ok(self.count(constraint, QueryKind::Own, key, Sees::Own)? > 0)
    }

    /// Returns whether a row of the referenced table has this key (again).
    pub(crate) fn is_back(&mut self, constraint: &Constraint<'_>, key: &[Datum]) -> Result<bool> {
        Ok(self.count(constraint, QueryKind::Back, key, Sees::Latest)? > 0)
    }

    /// Returns whether a row refers to this key, whether the transaction sees it or not.
    pub(crate) fn is_referred_to(
        &mut self,
        constraint: &Constraint<'_>,
        key: &[Datum],
    ) -> Result<bool> {
        Ok(self.count(constraint, QueryKind::Referring, key, Sees::Latest)? > 0)
    }

    /// Changes the rows that refer to the key `old`. At REPEATABLE READ this fails when the
    /// transaction does not see such a row.
    pub(crate) fn change_referring(
        &mut self,
        constraint: &Constraint<'_>,
        kind: QueryKind,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<()> {
        let parameters: Vec<Datum> = old.iter().chain(new).cloned().collect();
        self.count(constraint, kind, &parameters, Sees::LatestIfSeen).map(drop)
    }

    /// Runs a query. Returns the number of its rows, or of the rows that it changed.
    fn count(
        &mut self,
        constraint: &Constraint<'_>,
        kind: QueryKind,
        parameters: &[Datum],
        sees: Sees,
    ) -> Result<u64> {
        let planned = self.reference_plan(constraint, kind)?;
        let state = self.end.state();
        self.exec.store.begin_following(sees, &state)?;
        let mut count = Count::default();
        let mut inside = self.exec.inside(&state);
        inside.calls = inside.calls.inside_trigger();
        let done = planned.execute(&mut inside, parameters, &mut count);
        self.exec.store.end_nested();
        self.end.transaction.next_command()?;
        Ok(count.0.max(done?.rows))
    }

    /// Returns the plan of a query. Its locks are held.
    fn reference_plan(
        &mut self,
        constraint: &Constraint<'_>,
        kind: QueryKind,
    ) -> Result<Arc<Planned>> {
        let at = (constraint.key.oid, kind);
        let version = self.end.plan_version();
        let known = self
            .end
            .plans
            .borrow()
            .0
            .get(&at)
            .and_then(|plan| (plan.version == version).then(|| Arc::clone(&plan.planned)));
        if let Some(planned) = known
            && self.end.lock_for(&planned, version)?
        {
            return Ok(planned);
        }
        let (sql, types) = reference_query(constraint, kind)?;
        let planned = self.end.plan(&sql, &types, self.exec)?;
        let plan = Plan { planned: Arc::clone(&planned), version: self.end.plan_version() };
        let mut plans = self.end.plans.borrow_mut();
        if plans.0.len() >= PLANS_MAX {
            plans.0.clear();
        }
        plans.0.insert(at, plan);
        Ok(planned)
    }
}

/// Returns text and parameter types of a query. The first parameters are the key to look for.
fn reference_query(constraint: &Constraint<'_>, kind: QueryKind) -> Result<(String, Vec<TypeOid>)> {
    let Constraint { state, table, referenced, key, .. } = *constraint;
    let (own, other) = (qualified(state, table), qualified(state, referenced));
    let columns = |relation: &Relation, positions: &[u16]| {
        positions.iter().map(|at| column_of(relation, *at)).collect::<Result<Vec<_>>>()
    };
    let referring = columns(table, &key.columns)?;
    let keys = columns(referenced, &key.referenced)?;
    // If no operator compares the two types, the value is converted to the key's type.
    let of_key = |at: usize, given: ColumnType, wanted: ColumnType| {
        if niwaki_sql::types::are_one_family(given.oid, wanted.oid) {
            format!("${}", at + 1)
        } else {
            let wanted = type_in_sql(state, ColumnType::new(wanted.oid));
            format!("CAST(${} AS {wanted})", at + 1)
        }
    };
    let by_key = |given: &[(String, ColumnType)]| {
        let pairs = keys.iter().zip(given).enumerate();
        let equal = pairs.map(|(at, ((name, wanted), (_, given)))| {
            format!("{name} = {}", of_key(at, *given, *wanted))
        });
        equal.collect::<Vec<_>>().join(" AND ")
    };
    let by_reference = |given: &[(String, ColumnType)]| {
        let pairs = referring.iter().zip(given).enumerate();
        let equal = pairs.map(|(at, ((name, _), _))| format!("{name} = ${}", at + 1));
        equal.collect::<Vec<_>>().join(" AND ")
    };
    let types = |given: &[(String, ColumnType)]| -> Vec<TypeOid> {
        given.iter().map(|(_, column_type)| column_type.oid).collect()
    };
    let lock = if seeded_bug!("reference_without_lock") { "" } else { " FOR KEY SHARE" };
    let set = |positions: &[u16], value: &str| -> Result<String> {
        let list = columns(table, positions)?;
        let list = list.into_iter().map(|(name, _)| format!("{name} = {value}"));
        Ok(list.collect::<Vec<_>>().join(", "))
    };
    let set_columns =
        |deleted: bool| if deleted { key.columns_set_on_delete() } else { &key.columns };
    let mut parameters = types(&keys);
    let sql = match kind {
        QueryKind::Referenced => {
            parameters = types(&referring);
            format!("SELECT 1 FROM {other} WHERE {}{lock}", by_key(&referring))
        }
        QueryKind::Back => format!("SELECT 1 FROM {other} WHERE {}{lock}", by_key(&keys)),
        QueryKind::Own => {
            parameters = types(&referring);
            format!("SELECT 1 FROM {own} WHERE {} LIMIT 1", by_reference(&referring))
        }
        QueryKind::Referring => {
            format!("SELECT 1 FROM {own} WHERE {} LIMIT 1{lock}", by_reference(&keys))
        }
        QueryKind::Delete => format!("DELETE FROM {own} WHERE {}", by_reference(&keys)),
        QueryKind::Follow => {
            parameters.extend(types(&keys));
            let first = keys.len() + 1;
            let list = referring.iter().enumerate();
            let list: Vec<String> =
                list.map(|(at, (name, _))| format!("{name} = ${}", first + at)).collect();
            format!("UPDATE {own} SET {} WHERE {}", list.join(", "), by_reference(&keys))
        }
        QueryKind::SetNull { deleted } => {
            let list = set(set_columns(deleted), "NULL")?;
            format!("UPDATE {own} SET {list} WHERE {}", by_reference(&keys))
        }
        QueryKind::SetDefault { deleted } => {
            let list = set(set_columns(deleted), "DEFAULT")?;
            format!("UPDATE {own} SET {list} WHERE {}", by_reference(&keys))
        }
    };
    Ok((sql, parameters))
}

/// Number of plans that a session keeps at most. At this number all plans are dropped.
const PLANS_MAX: usize = 1000;
