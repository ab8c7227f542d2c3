//! CREATE FUNCTION, ALTER FUNCTION and DROP FUNCTION.

use std::sync::Arc;

use niwaki_catalog::{FunctionDefinition, FunctionLanguage, Oid, TRIGGER_TYPE, builtin_functions};
use niwaki_session::shown_type;
use niwaki_sql::utility::{
    ArgumentType, CreateFunction, FunctionName, FunctionStatement, Name, Persistence,
    check_language,
};
use niwaki_sql::{Result, SqlError, analyze_function, check_function, read_body};
use niwaki_txn::TableLockMode;
use niwaki_types::{TypeOid, quote_identifier};
use pg_query::NodeEnum;

use crate::definer::Definer;
use crate::types::user_type::expression_user;

/// Function that a statement names.
enum Named {
    /// A user-defined function.
    User(Arc<FunctionDefinition>),
    /// A built-in function, as messages call it.
    Builtin(String),
}

impl Definer<'_> {
    pub(crate) fn function_statement(
        &mut self,
        statement: &FunctionStatement,
    ) -> Result<&'static str> {
        match statement {
            FunctionStatement::Create(spec) => self.create_function(spec)?,
            FunctionStatement::Drop { functions, if_exists, cascade, .. } => {
                self.drop_functions(functions, *if_exists, *cascade)?;
            }
            FunctionStatement::Rename { function, to } => {
                let found = self.lock_function(function)?;
                self.function_is_free(found.schema, to, &found)?;
                self.refuse_called_in_texts(&found, "RENAME")?;
                let name = to.clone();
                self.update_function(FunctionDefinition { name, ..found })?;
            }
            FunctionStatement::Owner { function, role } => {
                self.lock_function(function)?;
                self.may_own(role)?;
            }
            FunctionStatement::SetSchema { function, schema } => {
                let found = self.lock_function(function)?;
                let schema = self.target_schema(schema)?;
                if schema != found.schema {
                    self.function_is_free(schema, &found.name, &found)?;
                    self.refuse_called_in_texts(&found, "SET SCHEMA")?;
                    self.update_function(FunctionDefinition { schema, ..found })?;
                }
            }
            FunctionStatement::Alter { function, changes } => {
                let mut found = self.lock_function(function)?;
                if changes.rows.is_some() && !found.returns_set {
                    let message = "ROWS is not applicable when function does not return a set";
                    return Err(SqlError::new("22023", message));
                }
                changes.apply(&mut found.traits);
                self.update_function(found)?;
            }
        }
        Ok(statement.tag())
    }

    fn create_function(&mut self, spec: &CreateFunction) -> Result<()> {
        check_language(&spec.language)?;
        let schema = self.creation_schema(&spec.name, Persistence::Permanent)?;
        if self.state().temporary_schema() == Some(schema) {
            return Err(SqlError::unsupported("a function in the temporary schema"));
        }
        let new = match spec.language.as_str() {
            "sql" => self.sql_function(spec, schema)?,
            _ => self.function_for_triggers(spec, schema)?,
        };
        let defined = self.define_function(spec, new)?;
        self.check_body(&defined)
    }

    /// Puts a function into the catalog: a new one or, with OR REPLACE, in place of the existing
    /// one.
    fn define_function(
        &mut self,
        spec: &CreateFunction,
        new: FunctionDefinition,
    ) -> Result<FunctionDefinition> {
        let (schema, name, arguments) = (new.schema, new.name.clone(), new.arguments.clone());
        loop {
            let Some(old) = self.state().lookup_function(schema, &name, &arguments).cloned() else {
                let oid = self.session.new_oid();
                let (transaction, catalog) = self.session.transaction_and_catalog()?;
                let new = FunctionDefinition { oid, ..new };
                catalog.create_function(transaction, new.clone())?;
                return Ok(new);
            };
            if !spec.replace {
                let message =
                    format!("function \"{name}\" already exists with same argument types");
                return Err(SqlError::new("42723", message));
            }
            self.lock(old.oid, TableLockMode::AccessExclusive)?;
            // Ends: each round waits for the end of a transaction that changed the function.
            let now = self.state().lookup_function(schema, &name, &arguments).cloned();
            if let Some(now) = now.filter(|now| now.oid == old.oid) {
                self.may_replace(&now, &new)?;
                let comment = now.comment.clone();
                let new = FunctionDefinition { oid: now.oid, comment, ..new };
                self.update_function(new.clone())?;
                return Ok(new);
            }
        }
    }

    /// Checks the body of a function that is already in the catalog, so that the body can call its
    /// own function. An error undoes the statement, and the function with it.
    fn check_body(&mut self, defined: &FunctionDefinition) -> Result<()> {
        let checks = self.session.settings().show("check_function_bodies")? == "on";
        if !checks || defined.language != FunctionLanguage::Sql {
            return Ok(());
        }
        self.session.with_analysis(|context| check_function(defined, context))
    }

    /// Returns a trigger function, in PL/pgSQL.
    fn function_for_triggers(
        &mut self,
        spec: &CreateFunction,
        schema: Oid,
    ) -> Result<FunctionDefinition> {
        if !spec.for_triggers {
            // Errors that hold for any function come first.
            self.session.with_analysis(|context| analyze_function(spec, schema, context))?;
            return Err(SqlError::unsupported("a PL/pgSQL function that is none of triggers"));
        }
        if !spec.parameters.is_empty() {
            let message = "trigger functions cannot have declared arguments";
            let hint = "The arguments of the trigger can be accessed through TG_NARGS and \
                        TG_ARGV instead.";
            return Err(SqlError::new("42P13", message).with_hint(hint));
        }
        if spec.traits.rows.is_some() {
            let message = "ROWS is not applicable when function does not return a set";
            return Err(SqlError::new("22023", message));
        }
        read_body(&spec.body)?;
        Ok(FunctionDefinition {
            oid: Oid::INVALID,
            schema,
            name: spec.name.name.clone(),
            language: FunctionLanguage::PlPgSql,
            arguments: Vec::new(),
            parameters: Vec::new(),
            returns: TRIGGER_TYPE.0,
            returns_set: false,
            body: spec.body.clone(),
            traits: spec.traits.clone(),
            comment: None,
        })
    }

    /// Returns a function in SQL. The types that it names are locked.
    fn sql_function(&mut self, spec: &CreateFunction, schema: Oid) -> Result<FunctionDefinition> {
        let analyzed = |definer: &mut Self| {
            definer.session.with_analysis(|context| analyze_function(spec, schema, context))
        };
        self.lock_found(TableLockMode::AccessShare, analyzed, FunctionDefinition::types)
    }

    /// Fails with 42P13 for a change that CREATE OR REPLACE cannot make, because existing calls
    /// depend on the old form.
    fn may_replace(&mut self, old: &FunctionDefinition, new: &FunctionDefinition) -> Result<()> {
        let shown = self.shown_function(old);
        let hint = format!("Use DROP FUNCTION {shown} first.");
        let refused =
            |message: String| Err(SqlError::new("42P13", message).with_hint(hint.clone()));
        let outputs = |function: &FunctionDefinition| -> Vec<(String, u32)> {
            function.outputs().map(|output| (output.name.clone(), output.kind)).collect()
        };
        let rows = TypeOid(old.returns) == TypeOid::RECORD && outputs(old) != outputs(new);
        if old.returns != new.returns || old.returns_set != new.returns_set || rows {
            return refused("cannot change return type of existing function".to_owned());
        }
        let (was, is) = (old.inputs(), new.inputs());
        for (was, is) in was.iter().zip(&is) {
            if !was.name.is_empty() && was.name != is.name {
                let message = format!("cannot change name of input parameter \"{}\"", was.name);
                return refused(message);
            }
            if was.default.is_some() && is.default.is_none() {
                let message = "cannot remove parameter defaults from existing function";
                return refused(message.to_owned());
            }
        }
        Ok(())
    }

    fn update_function(&mut self, definition: FunctionDefinition) -> Result<()> {
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.update_function(transaction, definition)?)
    }

    /// Fails with 42723 when a function of the schema has the name and the arguments.
    fn function_is_free(
        &mut self,
        schema: Oid,
        name: &str,
        found: &FunctionDefinition,
    ) -> Result<()> {
        if self.state().lookup_function(schema, name, &found.arguments).is_none() {
            return Ok(());
        }
        let shown = self.shown_with_arguments(name, &found.arguments);
        let schema = self.session.schema_name(schema);
        let message = format!("function {shown} already exists in schema \"{schema}\"");
        Err(SqlError::new("42723", message))
    }

    /// Returns `name(types)`.
    fn shown_with_arguments(&mut self, name: &str, arguments: &[u32]) -> String {
        let (types, state, path) = (self.session.types(), self.state(), self.session.search_path());
        let shown = |oid: &u32| {
            let oid = TypeOid(*oid);
            let number = oid.user_number().filter(|_| types.shown(oid).is_none());
            match number.and_then(|number| state.relation(Oid(number))) {
                Some(of_rows) => {
                    let array = if oid.element().is_some() { "[]" } else { "" };
                    format!("{}{array}", state.shown_relation(&path, of_rows))
                }
                None => shown_type(&types, oid),
            }
        };
        let arguments: Vec<String> = arguments.iter().map(shown).collect();
        format!("{name}({})", arguments.join(","))
    }

    /// Returns a function as messages call it: with its schema, unless the search path finds it.
    pub(crate) fn shown_function(&mut self, function: &FunctionDefinition) -> String {
        let path = self.session.search_path();
        let state = self.state();
        let name = quote_identifier(&function.name);
        let found = state.resolve_function(&path, None, &function.name, &function.arguments);
        let name = match found {
            Some(found) if found.oid == function.oid => name,
            _ => format!("{}.{name}", self.session.schema_name(function.schema)),
        };
        self.shown_with_arguments(&name, &function.arguments)
    }

    /// Returns the type numbers of the arguments that a statement names.
    fn argument_oids(&mut self, arguments: &[ArgumentType]) -> Result<Vec<u32>> {
        let mut oids = Vec::with_capacity(arguments.len());
        for (builtin, of_user) in arguments {
            oids.push(match of_user {
                Some(wanted) => match self.row_type_of(&wanted.name).filter(|_| !wanted.array) {
                    Some(rows) => rows.0,
                    None => self.column_type_of(wanted)?.declared().0,
                },
                None => builtin.oid.0,
            });
        }
        Ok(oids)
    }

    /// Returns the row type of a table or view, if the name means the relation and no type.
    fn row_type_of(&mut self, name: &Name) -> Option<TypeOid> {
        if self.find_type(name).is_some() {
            return None;
        }
        let (path, state) = (self.session.search_path(), self.state());
        let found = state.resolve(&path, name.schema.as_deref(), &name.name).ok()?;
        found.kind.has_row_type().then(|| TypeOid::of_composite(found.oid.0))
    }

    /// Finds the function that a statement names. Returns `None` when no function has the name.
    fn find_function(&mut self, wanted: &FunctionName) -> Result<Option<Named>> {
        let path = self.session.search_path();
        let name = &wanted.name;
        if let Some(schema) = &name.schema
            && self.state().schema_by_name(schema).is_none()
        {
            return Err(SqlError::undefined_schema(schema));
        }
        let arguments = match &wanted.arguments {
            Some(arguments) => Some(self.argument_oids(arguments)?),
            None => None,
        };
        let state = self.state();
        let schema = name.schema.as_deref();
        let fits = |found: &[u32]| arguments.as_ref().is_none_or(|wanted| wanted == found);
        let mut all: Vec<Named> = Vec::new();
        if schema.is_none_or(|schema| schema == "pg_catalog") {
            for found in builtin_functions().named(&name.name) {
                let own: Vec<u32> = found.arguments.iter().map(|kind| kind.0).collect();
                if fits(&own) {
                    all.push(Named::Builtin(self.shown_with_arguments(found.name, &own)));
                }
            }
        }
        for found in state.functions_named(&name.name) {
            let visible = match schema {
                Some(schema) => state.schema_by_name(schema).map(|s| s.oid) == Some(found.schema),
                None => path.schemas.contains(&found.schema),
            };
            if visible && fits(&found.arguments) {
                all.push(Named::User(Arc::clone(found)));
            }
        }
        if arguments.is_none() && all.len() > 1 {
            let message = format!("function name \"{name}\" is not unique");
            let hint = "Specify the argument list to select the function unambiguously.";
            return Err(SqlError::new("42725", message).with_hint(hint));
        }
        let place = |found: &Named| match found {
            Named::User(found) => path.schemas.iter().position(|schema| *schema == found.schema),
            Named::Builtin(_) => {
                path.schemas.iter().position(|schema| *schema == niwaki_catalog::PG_CATALOG)
            }
        };
        all.sort_by_key(place);
        Ok(all.into_iter().next())
    }

    fn no_function(&mut self, wanted: &FunctionName) -> Result<SqlError> {
        let name = &wanted.name;
        let message = match &wanted.arguments {
            None => format!("could not find a function named \"{name}\""),
            Some(arguments) => {
                let arguments = self.argument_oids(arguments)?;
                let shown = self.shown_with_arguments(&name.to_string(), &arguments);
                format!("function {} does not exist", shown.replace(',', ", "))
            }
        };
        Ok(SqlError::new("42883", message))
    }

    /// Finds a user-defined function and locks it against changes. Returns its current definition.
    fn lock_function(&mut self, wanted: &FunctionName) -> Result<FunctionDefinition> {
        loop {
            let found = match self.find_function(wanted)? {
                Some(Named::User(found)) => found,
                Some(Named::Builtin(name)) => {
                    let what = format!("changing the built-in function {name}");
                    return Err(SqlError::unsupported(what));
                }
                None => return Err(self.no_function(wanted)?),
            };
            self.lock(found.oid, TableLockMode::AccessExclusive)?;
            // Ends: each round waits for the end of a transaction that changed the function.
            if let Some(Named::User(now)) = self.find_function(wanted)?
                && now.oid == found.oid
            {
                return Ok(FunctionDefinition::clone(&now));
            }
        }
    }

    fn drop_functions(
        &mut self,
        names: &[FunctionName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut functions: Vec<FunctionDefinition> = Vec::new();
        for wanted in names {
            match self.find_function(wanted) {
                Ok(Some(Named::User(_))) => {
                    let found = self.lock_function(wanted)?;
                    if !functions.iter().any(|known| known.oid == found.oid) {
                        functions.push(found);
                    }
                }
                Ok(Some(Named::Builtin(name))) => {
                    let message = format!(
                        "cannot drop function {name} because it is required by the database system"
                    );
                    return Err(SqlError::new("2BP01", message));
                }
                Ok(None) if if_exists => {
                    let shown = format!("{}({})", wanted.name, wanted.written.join(","));
                    self.notice(format!("function {shown} does not exist, skipping"));
                }
                Ok(None) => return Err(self.no_function(wanted)?),
                Err(error) if if_exists && matches!(error.sqlstate, "3F000" | "42704") => {
                    self.notice(format!("{}, skipping", error.message));
                }
                Err(error) => return Err(error),
            }
        }
        self.drop_all_functions(&functions, cascade)
    }

    /// Removes locked functions together, and with CASCADE their dependents: the triggers, views
    /// and stored expressions that call them.
    pub(crate) fn drop_all_functions(
        &mut self,
        functions: &[FunctionDefinition],
        cascade: bool,
    ) -> Result<()> {
        let what = match functions {
            [one] => format!("function {}", self.shown_function(one)),
            _ => String::new(),
        };
        let oids: Vec<Oid> = functions.iter().map(|function| function.oid).collect();
        self.drop_dependents(&what, &|definer| definer.callers_of(&oids), cascade)?;
        for function in functions {
            self.refuse_called_in_texts(function, "DROP")?;
            self.remove_function(function.oid)?;
        }
        Ok(())
    }

    pub(crate) fn remove_function(&mut self, oid: Oid) -> Result<()> {
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.remove_function(transaction, oid)?)
    }

    /// Refuses an operation on a function that an old stored text calls by name, because the text
    /// would not find the function any more. Newer texts call functions by number.
    fn refuse_called_in_texts(&mut self, function: &FunctionDefinition, what: &str) -> Result<()> {
        let calls = |node: &NodeEnum| {
            let NodeEnum::FuncCall(call) = node else { return false };
            let last = call.funcname.last().and_then(|node| node.node.as_ref());
            matches!(last, Some(NodeEnum::String(last)) if last.sval == function.name)
                && builtin_functions().named(&function.name).next().is_none()
        };
        match expression_user(&self.state(), function.oid, calls)? {
            None => Ok(()),
            Some(user) => Err(SqlError::unsupported(format!(
                "{what} of a function that a default or check of {user} calls by its name"
            ))),
        }
    }

    /// Runs COMMENT ON FUNCTION.
    pub(crate) fn comment_on_function(
        &mut self,
        wanted: &FunctionName,
        comment: Option<String>,
    ) -> Result<()> {
        let found = self.lock_function(wanted)?;
        self.update_function(FunctionDefinition { comment, ..found })
    }
}
