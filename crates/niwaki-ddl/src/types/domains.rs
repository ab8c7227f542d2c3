//! CREATE DOMAIN and ALTER DOMAIN.
//!
//! The constraints of a domain are checked where values are made (`niwaki_sql`). So only this
//! module applies a new constraint to stored values. It locks the tables that have columns of the
//! domain against writers until the transaction ends, and checks their rows. Statements that were
//! planned before read the changed catalog once they have their locks.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Check, DomainDefinition, Oid, Relation, TypeDefinition, TypeKind,
};
use niwaki_session::type_in_sql;
use niwaki_sql::utility::{DomainAction, DomainSpec, Name, Persistence};
use niwaki_sql::{Result, SqlError, check_domain_expression, define_domain_check, rename_column};
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, TypeOid, quote_identifier};

use crate::constraint::put_check;
use crate::definer::Definer;
use crate::generated_names;

/// Name of the value in the checks of a domain.
const VALUE: &str = "value";

/// Greatest depth of domains over domains. Code that reads their values recurses, so the depth
/// needs a bound.
const LEVELS_MAX: usize = 1000;

impl Definer<'_> {
    pub(crate) fn create_domain(&mut self, spec: &DomainSpec) -> Result<()> {
        let schema = self.creation_schema(&spec.name, Persistence::Permanent)?;
        let name = &spec.name.name;
        self.type_name_is_free(schema, name)?;
        let made_of = match &spec.user_type {
            Some(wanted) => self.column_type_of(wanted)?,
            None => spec.column_type,
        };
        if made_of.oid.element().unwrap_or(made_of.oid).is_composite() {
            return Err(SqlError::unsupported("a domain over a composite type"));
        }
        let state = self.state();
        let levels = made_of.domain.map_or(0, |domain| state.domain_chain(domain).len());
        if levels >= LEVELS_MAX {
            return Err(SqlError::new("54001", "stack depth limit exceeded")
                .with_detail(format!("At most {LEVELS_MAX} domains can be made of one another.")));
        }
        let below = made_of.domain.and_then(|below| state.domain(below));
        let mut domain = DomainDefinition {
            type_oid: made_of.oid.0,
            typmod: made_of.typmod,
            over: made_of.domain.and_then(TypeOid::user_number).map(Oid),
            collation: self.collation(spec.collation, made_of)?,
            not_null: spec.not_null,
            default: None,
            checks: Vec::new(),
        };
        domain.default = match &spec.default {
            Some(Some(default)) => Some(self.new_default(default, (domain.below(), name))?),
            Some(None) => None,
            // The new domain inherits the current default.
            None => below.and_then(|below| below.default.clone()),
        };
        for (given, expression) in &spec.checks {
            self.add_domain_check(&mut domain, schema, name, given.as_deref(), expression, false)?;
        }
        let oid = self.session.new_oid();
        if TypeOid::of_domain(oid.0).user_number() != Some(oid.0) {
            return Err(SqlError::new("54000", "no number is left for another type"));
        }
        let kind = TypeKind::Domain(Box::new(domain));
        let definition = TypeDefinition { oid, schema, name: name.clone(), kind, comment: None };
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.create_type(transaction, definition)?)
    }

    /// Adds a check to a definition, under the given name or a generated one. Returns the name.
    fn add_domain_check(
        &mut self,
        domain: &mut DomainDefinition,
        schema: Oid,
        name: &str,
        given: Option<&str>,
        expression: &str,
        not_valid: bool,
    ) -> Result<String> {
        let below = domain.below();
        let expression = self
            .session
            .with_analysis(|context| define_domain_check(expression, below, context))?;
        let state = self.state();
        let own = |wanted: &str| domain.checks.iter().any(|check| check.name == wanted);
        let constraint = match given {
            Some(given) if own(given) => {
                let message =
                    format!("constraint \"{given}\" for domain \"{name}\" already exists");
                return Err(SqlError::new("42710", message));
            }
            Some(given) => given.to_owned(),
            None => {
                let mut number = 0u32;
                // Ends: the constraints are fewer than the numbers.
                loop {
                    let label =
                        if number == 0 { "check".to_owned() } else { format!("check{number}") };
                    let made = generated_names::object_name(name, None, &label);
                    if !own(&made) && !constraint_exists(&state, schema, &made) {
                        break made;
                    }
                    number += 1;
                }
            }
        };
        let check = Check {
            name: constraint.clone(),
            expression,
            not_valid,
            no_inherit: false,
            comment: None,
        };
        put_check(&mut domain.checks, check, "domain", name)?;
        Ok(constraint)
    }

    pub(crate) fn alter_domain(&mut self, name: &Name, action: &DomainAction) -> Result<()> {
        self.refuse_builtin(name)?;
        let found = self.lock_type(name, TableLockMode::AccessExclusive)?;
        let shown = self.session.types().shown(found.type_oid()).unwrap_or_default();
        let mut definition = TypeDefinition::clone(&found);
        let TypeKind::Domain(domain) = &mut definition.kind else {
            return Err(SqlError::new("42809", format!("{shown} is not a domain")));
        };
        let missing = |constraint: &str| {
            let message =
                format!("constraint \"{constraint}\" of domain \"{name}\" does not exist");
            SqlError::new("42704", message)
        };
        match action {
            DomainAction::Default(default) => {
                domain.default = match default {
                    Some(text) => {
                        Some(self.new_default(text, (domain.below(), found.name.as_str()))?)
                    }
                    None => None,
                };
            }
            DomainAction::NotNull(not_null) => {
                if *not_null && !domain.not_null {
                    self.refuse_null_values(&found)?;
                }
                domain.not_null = *not_null;
            }
            DomainAction::AddCheck { name: given, expression, not_valid } => {
                let (schema, name) = (found.schema, found.name.as_str());
                let given = given.as_deref();
                let added =
                    self.add_domain_check(domain, schema, name, given, expression, *not_valid)?;
                let check = domain.checks.iter().find(|check| check.name == added).cloned();
                self.update_type(definition)?;
                // This finds a check that leads back to the domain.
                let cast = format!("value::{}", type_in_sql(&self.state(), found.column_type()));
                let of_text = ColumnType::new(TypeOid::TEXT);
                self.session.with_analysis(|context| {
                    check_domain_expression(&format!("{cast} IS NULL"), of_text, context)
                })?;
                return match check {
                    Some(check) if !*not_valid => self.prove_domain_check(&found, &check),
                    _ => Ok(()),
                };
            }
            DomainAction::DropConstraint { name: constraint, if_exists } => {
                let before = domain.checks.len();
                domain.checks.retain(|check| check.name != *constraint);
                if domain.checks.len() == before {
                    let error = missing(constraint);
                    if *if_exists {
                        self.notice(format!("{}, skipping", error.message));
                        return Ok(());
                    }
                    return Err(error);
                }
            }
            DomainAction::Validate(constraint) => {
                let check = domain.checks.iter_mut().find(|check| check.name == *constraint);
                let check = check.ok_or_else(|| missing(constraint))?;
                if check.not_valid {
                    check.not_valid = false;
                    let check = check.clone();
                    self.prove_domain_check(&found, &check)?;
                }
            }
            DomainAction::RenameConstraint { from, to } => {
                let taken = domain.checks.iter().any(|check| check.name == *to);
                let check = domain.checks.iter_mut().find(|check| check.name == *from);
                let check = check.ok_or_else(|| {
                    let message =
                        format!("constraint \"{from}\" for domain {shown} does not exist");
                    SqlError::new("42704", message)
                })?;
                if taken {
                    let message = format!("constraint \"{to}\" for domain {shown} already exists");
                    return Err(SqlError::new("42710", message));
                }
                check.name.clone_from(to);
                domain.checks.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        self.update_type(definition)
    }

    pub(crate) fn update_type(&mut self, definition: TypeDefinition) -> Result<()> {
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.update_type(transaction, definition)?)
    }

    /// Fails when a column of a domain that becomes NOT NULL has a NULL.
    fn refuse_null_values(&mut self, domain: &TypeDefinition) -> Result<()> {
        let is_null = |column: &str| Ok(format!("{} IS NULL", quote_identifier(column)));
        self.look_through(domain, is_null, "23502", "null values")
    }

    /// Fails when a column of a domain has a value that does not satisfy the check.
    fn prove_domain_check(&mut self, domain: &TypeDefinition, check: &Check) -> Result<()> {
        let violates = |column: &str| {
            Ok(format!("NOT ({})", rename_column(&check.expression, VALUE, column)?))
        };
        let what = "values that violate the new constraint";
        self.look_through(domain, violates, "23514", what)
    }

    /// Fails when a stored value of a domain satisfies `bad`, a condition on the column of the
    /// given name.
    fn look_through(
        &mut self,
        domain: &TypeDefinition,
        bad: impl Fn(&str) -> Result<String>,
        sqlstate: &'static str,
        what: &str,
    ) -> Result<()> {
        let columns = self.lock_found(
            TableLockMode::Share,
            |definer| Ok(columns_of_domain(&definer.state(), domain.oid)),
            |columns: &Vec<(Arc<Relation>, usize)>| {
                columns.iter().map(|(table, _)| table.oid).collect()
            },
        )?;
        for (table, position) in columns {
            let Some(column) = table.columns.get(position) else { continue };
            let name = column.name.clone();
            let sql = format!(
                "SELECT 1 FROM {} WHERE {} LIMIT 1",
                self.session.qualified_name(&table),
                bad(&name)?
            );
            let rows = self.session.at_latest(|session| session.stored_query(&sql))?;
            if !rows.is_empty() {
                let message =
                    format!("column \"{name}\" of table \"{}\" contains {what}", table.name);
                return Err(SqlError::new(sqlstate, message)
                    .with_table(self.session.schema_name(table.schema), table.name.clone())
                    .with_column(name));
            }
        }
        Ok(())
    }

    /// Refuses a name that a type or the row type of a relation in the schema has.
    pub(crate) fn type_name_is_free(&mut self, schema: Oid, name: &str) -> Result<()> {
        let state = self.state();
        if state.temporary_schema() == Some(schema) {
            return Err(SqlError::unsupported("a type in the temporary schema"));
        }
        if state.lookup_type(schema, name).is_some() || state.lookup(schema, name).is_some() {
            return Err(SqlError::new("42710", format!("type \"{name}\" already exists")));
        }
        Ok(())
    }

    /// Returns whether the schema has a relation of this name, or a composite type, which
    /// PostgreSQL counts as one.
    fn is_relation_name(&mut self, schema: Oid, name: &str) -> bool {
        let state = self.state();
        let found = state.lookup_type(schema, name);
        state.lookup(schema, name).is_some()
            || found.is_some_and(|found| found.attributes().is_some())
    }

    /// Refuses a built-in type where a domain is to be named.
    fn refuse_builtin(&mut self, name: &Name) -> Result<()> {
        if self.find_type(name).is_some()
            || name.schema.as_deref().is_some_and(|s| s != "pg_catalog")
        {
            return Ok(());
        }
        match niwaki_sql::types::type_by_name(&name.name) {
            None => Ok(()),
            Some(oid) => {
                let shown = niwaki_sql::types::format_oid(oid);
                Err(SqlError::new("42809", format!("{shown} is not a domain")))
            }
        }
    }

    /// Locks the type that a statement on a type or domain names, and returns it.
    fn named_in_statement(&mut self, name: &Name, domain: bool) -> Result<Arc<TypeDefinition>> {
        if domain {
            self.refuse_builtin(name)?;
        }
        let found = self.lock_type(name, TableLockMode::AccessExclusive)?;
        if domain && found.domain().is_none() {
            let shown = self.session.types().shown(found.type_oid());
            let message = format!("{} is not a domain", shown.unwrap_or_default());
            return Err(SqlError::new("42809", message));
        }
        Ok(found)
    }

    /// Runs ALTER TYPE … RENAME TO and ALTER DOMAIN … RENAME TO.
    pub(crate) fn rename_type(&mut self, name: &Name, to: &str, domain: bool) -> Result<()> {
        let found = self.named_in_statement(name, domain)?;
        let relation = self.is_relation_name(found.schema, to);
        if found.attributes().is_some() && relation {
            return Err(SqlError::new("42P07", format!("relation \"{to}\" already exists")));
        }
        self.type_name_is_free(found.schema, to)?;
        self.refuse_named_in_texts(&found, "RENAME TO")?;
        let mut definition = TypeDefinition::clone(&found);
        to.clone_into(&mut definition.name);
        self.update_type(definition)
    }

    /// Runs ALTER TYPE … SET SCHEMA and ALTER DOMAIN … SET SCHEMA.
    pub(crate) fn move_type(&mut self, name: &Name, schema: &str, domain: bool) -> Result<()> {
        let found = self.named_in_statement(name, domain)?;
        let target = self.target_schema(schema)?;
        if target == found.schema {
            return Ok(());
        }
        let state = self.state();
        if state.lookup_type(target, &found.name).is_some()
            || state.lookup(target, &found.name).is_some()
        {
            let name = &found.name;
            if found.attributes().is_some() && self.is_relation_name(target, name) {
                let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
                return Err(SqlError::new("42P07", message));
            }
            let message = format!("type \"{name}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new("42710", message));
        }
        self.refuse_named_in_texts(&found, "SET SCHEMA")?;
        let mut definition = TypeDefinition::clone(&found);
        definition.schema = target;
        self.update_type(definition)
    }

    /// Runs ALTER TYPE … OWNER TO and ALTER DOMAIN … OWNER TO.
    pub(crate) fn own_type(&mut self, name: &Name, role: &str, domain: bool) -> Result<()> {
        self.named_in_statement(name, domain)?;
        self.may_own(role)
    }

    /// Runs COMMENT ON TYPE and COMMENT ON DOMAIN.
    pub(crate) fn comment_on_type(
        &mut self,
        name: &Name,
        domain: bool,
        comment: Option<String>,
    ) -> Result<()> {
        let found = self.named_in_statement(name, domain)?;
        self.update_type(TypeDefinition { comment, ..TypeDefinition::clone(&found) })
    }

    /// Runs COMMENT ON CONSTRAINT … ON DOMAIN.
    pub(crate) fn comment_on_domain_constraint(
        &mut self,
        name: &Name,
        constraint: &str,
        comment: Option<String>,
    ) -> Result<()> {
        let found = self.named_in_statement(name, true)?;
        let mut definition = TypeDefinition::clone(&found);
        let missing = || {
            let shown = &found.name;
            let message = format!("constraint \"{constraint}\" for domain {shown} does not exist");
            SqlError::new("42704", message)
        };
        let TypeKind::Domain(domain) = &mut definition.kind else { return Err(missing()) };
        let check = domain.checks.iter_mut().find(|check| check.name == constraint);
        check.ok_or_else(missing)?.comment = comment;
        self.update_type(definition)
    }

    /// Refuses a type that is not a domain, for DROP DOMAIN.
    pub(crate) fn refuse_no_domain(&mut self, name: &Name) -> Result<()> {
        let found = self.existing_type(name)?;
        match found.domain() {
            Some(_) => Ok(()),
            None => Err(SqlError::new("42809", format!("\"{name}\" is not a domain"))),
        }
    }
}

/// Returns whether a constraint of a table or domain in the schema has this name.
fn constraint_exists(state: &CatalogState, schema: Oid, name: &str) -> bool {
    let mut tables = state.tables().filter(|table| table.schema == schema);
    let in_tables = tables.any(|table| {
        state.constraints_of(table).iter().any(|constraint| constraint.name() == name)
    });
    let mut domains = state
        .user_types()
        .filter(|found| found.schema == schema)
        .filter_map(|found| found.domain());
    in_tables || domains.any(|domain| domain.checks.iter().any(|check| check.name == name))
}

/// Returns the columns of a domain, and of domains made of it, as tables and positions.
fn columns_of_domain(state: &CatalogState, oid: Oid) -> Vec<(Arc<Relation>, usize)> {
    let mut tables: Vec<&Arc<Relation>> =
        state.with_rows().filter(|table| !table.unpopulated).collect();
    tables.sort_by_key(|table| table.oid);
    let mut columns = Vec::new();
    for table in tables {
        for (position, column) in table.visible_columns() {
            let is_made = column.domain.is_some_and(|domain| state.is_made_of(domain, oid));
            if is_made {
                columns.push((Arc::clone(table), position));
            }
        }
    }
    columns
}
