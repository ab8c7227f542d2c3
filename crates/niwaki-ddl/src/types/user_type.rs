//! CREATE TYPE, ALTER TYPE and DROP TYPE. Domains are in `domains`, composite types in
//! `composites`.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Meaning, Oid, Relation, TypeDefinition, TypeKind};
use niwaki_env::stack;
use niwaki_session::no_modifier;
use niwaki_sql::utility::{Name, Persistence, TypeStatement, UserTypeName};
use niwaki_sql::{Result, SqlError, walk};
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, EnumType, LabelPlace, TypeOid, UserTypes};
use pg_query::NodeEnum;

use crate::definer::Definer;
use crate::depend::{self, still_needed};
use crate::expression_dependents::{names_type, users_of};
use crate::object::Object;

impl Definer<'_> {
    pub(crate) fn type_statement(&mut self, statement: &TypeStatement) -> Result<&'static str> {
        match statement {
            TypeStatement::CreateEnum { name, labels } => self.create_enum(name, labels)?,
            TypeStatement::CreateComposite { name, attributes } => {
                self.create_composite(name, attributes)?;
            }
            TypeStatement::AddValue { name, label, if_not_exists, neighbour } => {
                let place = match neighbour {
                    None => LabelPlace::Last,
                    Some((name, false)) => LabelPlace::Before(name),
                    Some((name, true)) => LabelPlace::After(name),
                };
                self.add_value(name, label, *if_not_exists, place)?;
            }
            TypeStatement::RenameValue { name, from, to } => self.rename_value(name, from, to)?,
            TypeStatement::CreateDomain(spec) => self.create_domain(spec)?,
            TypeStatement::AlterDomain { name, action } => self.alter_domain(name, action)?,
            TypeStatement::Rename { name, to, domain } => self.rename_type(name, to, *domain)?,
            TypeStatement::Owner { name, role, domain } => self.own_type(name, role, *domain)?,
            TypeStatement::SetSchema { name, schema, domain } => {
                self.move_type(name, schema, *domain)?;
            }
            TypeStatement::Drop { domain, names, if_exists, cascade } => {
                self.drop_types(names, *domain, *if_exists, *cascade)?;
            }
        }
        Ok(statement.tag())
    }

    fn create_enum(&mut self, name: &Name, labels: &[String]) -> Result<()> {
        let schema = self.creation_schema(name, Persistence::Permanent)?;
        self.type_name_is_free(schema, &name.name)?;
        let oid = self.session.new_oid();
        if TypeOid::of_enum(oid.0).user_number() != Some(oid.0) {
            return Err(SqlError::new("54000", "no number is left for another type"));
        }
        let mut definition = TypeDefinition {
            oid,
            schema,
            name: name.name.clone(),
            kind: TypeKind::Enum(Vec::new()),
            comment: None,
        };
        definition.set_labels(&EnumType::new(labels)?);
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.create_type(transaction, definition)?)
    }

    /// Returns the type of a name.
    pub(crate) fn existing_type(&mut self, name: &Name) -> Result<Arc<TypeDefinition>> {
        self.find_type(name).ok_or_else(|| self.undefined_type(name))
    }

    /// Returns 42704, or 3F000 if the schema does not exist either.
    fn undefined_type(&mut self, name: &Name) -> SqlError {
        let undefined = || SqlError::new("42704", format!("type \"{name}\" does not exist"));
        let error = self.session.find_schema(name).err().unwrap_or_else(undefined);
        error.with_position(name.position)
    }

    /// Finds a type and locks it against changes. Returns its current definition.
    pub(crate) fn lock_type(
        &mut self,
        name: &Name,
        mode: TableLockMode,
    ) -> Result<Arc<TypeDefinition>> {
        loop {
            let found = self.existing_type(name)?;
            self.lock(found.oid, mode)?;
            // A transaction that changed the type has published the change before it released its
            // lock.
            match self.find_type(name) {
                Some(now) if now.oid == found.oid => return Ok(now),
                _ => {}
            }
        }
    }

    fn lock_enum(&mut self, name: &Name) -> Result<Arc<TypeDefinition>> {
        let found = self.lock_type(name, TableLockMode::AccessExclusive)?;
        if !found.type_oid().is_enum() {
            let shown = self.session.types().shown(found.type_oid());
            let message = format!("{} is not an enum", shown.unwrap_or_default());
            return Err(SqlError::new("42809", message));
        }
        Ok(found)
    }

    pub(crate) fn find_type(&mut self, name: &Name) -> Option<Arc<TypeDefinition>> {
        let path = self.session.search_path();
        self.state().resolve_type(&path, name.schema.as_deref(), &name.name).cloned()
    }

    /// Returns the type of a column whose definition names a user-defined type. The type stays as
    /// long as this transaction runs.
    pub(crate) fn column_type_of(&mut self, wanted: &UserTypeName) -> Result<ColumnType> {
        let found = self.lock_type(&wanted.name, TableLockMode::AccessShare);
        let array = |found: &TypeDefinition| found.type_oid().array();
        match found {
            Ok(_) if wanted.modified => Err(no_modifier(&wanted.name)),
            Ok(found) if !wanted.array => Ok(found.column_type()),
            Ok(found) => match array(&found) {
                Some(array) => Ok(ColumnType::new(array)),
                None => Err(SqlError::unsupported("an array of a domain")
                    .with_position(wanted.name.position)),
            },
            Err(error) if error.sqlstate == "42704" && self.is_relation(&wanted.name) => {
                Err(SqlError::unsupported("a column of the type of a relation's rows")
                    .with_position(wanted.name.position))
            }
            Err(error) if wanted.array && error.sqlstate == "42704" => {
                let name = format!("{}[]", wanted.name.name);
                Err(self.undefined_type(&Name { name, ..wanted.name.clone() }))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether a name means a relation, whose rows have a type of the same name.
    fn is_relation(&mut self, name: &Name) -> bool {
        let path = self.session.search_path();
        let state = self.state();
        let found = state.resolve(&path, name.schema.as_deref(), &name.name);
        found.is_ok_and(|relation| relation.kind.has_row_type())
    }

    fn update_labels(&mut self, mut definition: TypeDefinition, labels: &EnumType) -> Result<()> {
        definition.set_labels(labels);
        self.update_type(definition)
    }

    fn add_value(
        &mut self,
        name: &Name,
        label: &str,
        if_not_exists: bool,
        place: LabelPlace<'_>,
    ) -> Result<()> {
        let definition = self.lock_enum(name)?;
        let mut labels = definition.enum_type();
        if if_not_exists && labels.place(label).is_some() {
            let message = format!("enum label \"{label}\" already exists, skipping");
            self.session.notice(self.out, "42710", message);
            return Ok(());
        }
        labels.add(label, place)?;
        self.update_labels(TypeDefinition::clone(&definition), &labels)
    }

    fn rename_value(&mut self, name: &Name, from: &str, to: &str) -> Result<()> {
        let definition = self.lock_enum(name)?;
        let mut labels = definition.enum_type();
        let found = labels.place(from).ok_or_else(|| {
            SqlError::new("22023", format!("\"{from}\" is not an existing enum label"))
        })?;
        if labels.place(to).is_some() {
            return Err(SqlError::new("42710", format!("enum label \"{to}\" already exists")));
        }
        // Defaults and checks are stored as text, in which the old label would not be found any
        // more.
        let state = self.state();
        let says = |node: &NodeEnum| {
            use pg_query::protobuf::a_const::Val;
            let NodeEnum::AConst(constant) = node else { return false };
            matches!(&constant.val, Some(Val::Sval(text)) if text.sval.contains(from))
        };
        if let Some(user) = expression_user(&state, definition.oid, says)? {
            return Err(SqlError::unsupported(format!(
                "RENAME VALUE of a label that a default or check of {user} says"
            )));
        }
        // Views are stored as text, too.
        let said = format!("'{}'", from.replace('\'', "''"));
        let says = |view: &&Arc<Relation>| {
            view.query.as_ref().is_some_and(|query| query.text.contains(&said))
        };
        if let Some(view) = state.relations().find(says) {
            return Err(SqlError::unsupported(format!(
                "RENAME VALUE of a label that view {} says",
                view.name
            )));
        }
        if let Some(label) = labels.labels.get_mut(found) {
            label.name = Arc::from(to);
        }
        self.update_labels(TypeDefinition::clone(&definition), &labels)
    }

    fn drop_types(
        &mut self,
        names: &[Name],
        domain: bool,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut types: Vec<Arc<TypeDefinition>> = Vec::new();
        for name in names {
            if self.find_type(name).is_none() {
                if name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog")
                    && let Some(oid) = niwaki_sql::types::type_by_name(&name.name)
                {
                    if domain {
                        let message = format!("\"{name}\" is not a domain");
                        return Err(SqlError::new("42809", message));
                    }
                    let shown = niwaki_sql::types::format_oid(oid);
                    return Err(SqlError::new(
                        "2BP01",
                        format!(
                            "cannot drop type {shown} because it is required by the database system"
                        ),
                    ));
                }
                if if_exists {
                    let missing = self.undefined_type(name).message.clone();
                    self.notice(format!("{missing}, skipping"));
                    continue;
                }
            }
            let found = self.lock_type(name, TableLockMode::AccessExclusive)?;
            if domain {
                self.refuse_no_domain(name)?;
            }
            if !types.iter().any(|known| known.oid == found.oid) {
                types.push(found);
            }
        }
        self.drop_all(types, cascade)
    }

    /// Removes locked types together, and with CASCADE their dependents.
    pub(crate) fn drop_all(
        &mut self,
        types: Vec<Arc<TypeDefinition>>,
        cascade: bool,
    ) -> Result<()> {
        let find = |definer: &mut Self| -> Result<Going> {
            let (state, names) = (definer.state(), definer.session.types());
            let mut going = Going::default();
            for definition in &types {
                going.take(&state, &names, definition, &types);
            }
            Ok(going)
        };
        let owners = |going: &Going| -> Vec<Oid> {
            going.dependents.iter().map(|(dependent, _)| dependent.place().0).collect()
        };
        let going = if cascade {
            self.lock_found(TableLockMode::AccessExclusive, find, owners)?
        } else {
            find(self)?
        };
        let (state, names) = (self.state(), self.session.types());
        let what = match types.as_slice() {
            [one] => format!("type {}", shown(&names, one)),
            _ => String::new(),
        };
        let mut dependents = Vec::with_capacity(going.dependents.len());
        let (mut lines, mut told) = (Vec::with_capacity(going.dependents.len()), Vec::new());
        for (dependent, on) in &going.dependents {
            let name = match dependent {
                Dependent::Domain(domain) => format!("type {}", shown(&names, domain)),
                Dependent::Column { table, column, .. } => {
                    format!("column {column} of table {}", self.shown_name(table))
                }
                Dependent::Attribute { of, name, .. } => {
                    format!("column {name} of composite type {}", shown(&names, of))
                }
            };
            let (owner, part) = dependent.place();
            let age = (owner, part + 1);
            lines.push((age, format!("{name} depends on type {on}")));
            if let Dependent::Column { table, position, .. } = dependent {
                let number = u16::try_from(*position).unwrap_or(u16::MAX);
                let mut readers = self.dependents_on_column(table, number, &name)?;
                // Readers that name a type are listed with the type.
                readers.retain(|reader| !names_any(&state, &reader.object, &going.types));
                lines.extend(self.lines(&readers)?.into_iter().map(|line| (age, line)));
                told.extend(readers.into_iter().map(|reader| reader.object));
            }
            dependents.push(name);
        }
        let mut readers = self.readers_of_types(&going.types)?;
        readers.retain(|reader| !told.contains(&reader.object));
        if dependents.is_empty() {
            self.drop_dependents(&what, &|it| it.readers_of_types(&going.types), cascade)?;
        } else if !cascade {
            for (line, reader) in self.lines(&readers)?.into_iter().zip(&readers) {
                let (owner, part, _) = reader.object.age();
                // Parts of tables are listed among the columns.
                let at = lines.iter().position(|(age, _)| *age > (owner, part));
                let at = at.filter(|_| part > 0).unwrap_or(lines.len());
                lines.insert(at, ((owner, part), line));
            }
            let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
            return Err(still_needed(&what, &lines));
        }
        self.cascades(&dependents);
        for (dependent, _) in &going.dependents {
            match dependent {
                Dependent::Column { table, column, .. } => {
                    let table = self.current(table.oid)?;
                    self.drop_column(&table, column, true, true)?;
                }
                // With the types.
                Dependent::Domain(_) => {}
                Dependent::Attribute { .. } => {
                    return Err(SqlError::unsupported(
                        "CASCADE that takes an attribute from a composite type",
                    ));
                }
            }
        }
        // Those that read none of the columns.
        self.drop_dependents(&what, &|it| it.readers_of_types(&going.types), true)?;
        // Those that depend on others first: what their texts say is gone then.
        for definition in going.types.iter().rev() {
            self.refuse_named_in_texts(definition, "DROP")?;
            let (transaction, catalog) = self.session.transaction_and_catalog()?;
            catalog.remove_type(transaction, definition.oid)?;
        }
        Ok(())
    }

    /// Returns the objects that depend on these types, and their own dependents. These are views
    /// that name a type or have columns of it, and functions with a type in their signature. Stored
    /// expressions that name a type count, too, unless they are dropped with a column.
    fn readers_of_types(
        &mut self,
        types: &[Arc<TypeDefinition>],
    ) -> Result<Vec<depend::Dependent>> {
        let state = self.state();
        let going: Vec<Oid> = types.iter().map(|definition| definition.oid).collect();
        let mut found: Vec<depend::Dependent> = Vec::new();
        for definition in types {
            let has = |view: &&Arc<Relation>| {
                view.query.as_ref().is_some_and(|query| query.types.contains(&definition.oid))
            };
            let views = state.relations().filter(has).map(|view| Object::View(view.oid));
            let functions = state.functions().into_iter();
            let functions = functions.filter(|function| function.types().contains(&definition.oid));
            let functions = functions.map(|function| Object::Function(function.oid));
            let mut objects: Vec<Object> = views.chain(functions).collect();
            for user in users_of(&state, names_type(definition.oid))? {
                if !self.goes_with_type(&user, &going)? {
                    objects.push(user);
                }
            }
            let on = format!("type {}", shown(&self.session.types(), definition));
            for dependent in self.dependents_on(objects, &on)? {
                if !found.iter().any(|known| known.object == dependent.object) {
                    found.push(dependent);
                }
            }
        }
        Ok(found)
    }

    /// Refuses an operation on a type that a cast in an old stored text names. The text would not
    /// find the type any more. Newer texts name types by number.
    pub(crate) fn refuse_named_in_texts(
        &mut self,
        found: &TypeDefinition,
        what: &str,
    ) -> Result<()> {
        // A call of the type's name as a function is a cast, too.
        let names = |node: &NodeEnum| {
            let name = match node {
                NodeEnum::TypeCast(cast) => cast.type_name.as_ref().map(|name| &name.names),
                NodeEnum::FuncCall(call) => Some(&call.funcname),
                _ => None,
            };
            let last = name.and_then(|name| name.last()).and_then(|node| node.node.as_ref());
            matches!(last, Some(NodeEnum::String(last)) if last.sval == found.name)
        };
        match expression_user(&self.state(), found.oid, names)? {
            None => Ok(()),
            Some(user) => Err(SqlError::unsupported(format!(
                "{what} of a type that a default or check of {user} names"
            ))),
        }
    }
}

/// Returns whether an object is a view whose text names one of the types.
fn names_any(state: &CatalogState, object: &Object, types: &[Arc<TypeDefinition>]) -> bool {
    let Object::View(view) = object else { return false };
    let query = state.relation(*view).and_then(|view| view.query.as_ref());
    let mut names = query.iter().flat_map(|query| &query.names);
    names.any(|name| match name.meaning {
        Meaning::Type(oid) => types.iter().any(|known| known.oid == oid),
        Meaning::Relation(..) | Meaning::Function(_) | Meaning::Object(_) => false,
    })
}

/// An object that cannot exist without a type.
enum Dependent {
    Domain(Arc<TypeDefinition>),
    Column { table: Arc<Relation>, position: usize, column: String },
    Attribute { of: Arc<TypeDefinition>, position: usize, name: String },
}

impl Dependent {
    /// Returns the sort key for the list of one type's dependents.
    fn place(&self) -> (Oid, usize) {
        match self {
            Self::Domain(domain) => (domain.oid, 0),
            Self::Column { table, position, .. } => (table.oid, *position),
            Self::Attribute { of, position, .. } => (of.oid, *position),
        }
    }
}

/// Types to drop, with their dependents.
#[derive(Default)]
struct Going {
    /// The types, each before the types that are made of it.
    types: Vec<Arc<TypeDefinition>>,
    /// Dependents that the statement does not name, each with the type that it depends on.
    dependents: Vec<(Dependent, String)>,
}

impl Going {
    /// Takes a type with all its dependents. `named` are the types that the statement names.
    fn take(
        &mut self,
        state: &CatalogState,
        names: &UserTypes,
        definition: &Arc<TypeDefinition>,
        named: &[Arc<TypeDefinition>],
    ) {
        // Ends: each type is taken once.
        if self.types.iter().any(|known| known.oid == definition.oid) {
            return;
        }
        self.types.push(Arc::clone(definition));
        let name = shown(names, definition);
        for (dependent, array) in dependents_of(state, definition.oid) {
            let on = format!("{name}{}", if array { "[]" } else { "" });
            match dependent {
                Dependent::Column { .. } => self.dependents.push((dependent, on)),
                Dependent::Attribute { ref of, .. } => {
                    if !self.types.iter().chain(named).any(|known| known.oid == of.oid) {
                        self.dependents.push((dependent, on));
                    }
                }
                Dependent::Domain(domain) => {
                    let known = self.types.iter().chain(named).any(|known| known.oid == domain.oid);
                    if !known {
                        self.dependents.push((Dependent::Domain(Arc::clone(&domain)), on));
                    }
                    stack::room(0, || self.take(state, names, &domain, named));
                }
            }
        }
    }
}

/// Returns a type's name as messages show it.
fn shown(types: &UserTypes, definition: &TypeDefinition) -> String {
    types.shown(definition.type_oid()).unwrap_or_default()
}

/// Returns the direct dependents of a type. True marks a dependent on arrays of the type.
fn dependents_of(state: &CatalogState, oid: Oid) -> Vec<(Dependent, bool)> {
    let mut found = Vec::new();
    for definition in state.user_types() {
        for (position, attribute) in definition.attributes().unwrap_or_default().iter().enumerate()
        {
            let kind = TypeOid(attribute.type_oid);
            if kind.user_number() == Some(oid.0) {
                let (of, name) = (Arc::clone(definition), attribute.name.clone());
                let array = kind.element().is_some();
                found.push((Dependent::Attribute { of, position, name }, array));
            }
        }
        let Some(domain) = definition.domain() else { continue };
        let base = domain.base().oid;
        let directly = match domain.over {
            Some(over) => over == oid,
            None => base.user_number() == Some(oid.0),
        };
        if directly {
            let array = domain.over.is_none() && base.element().is_some();
            found.push((Dependent::Domain(Arc::clone(definition)), array));
        }
    }
    for table in state.tables() {
        for (position, column) in table.visible_columns() {
            let kind = column.column_type();
            if kind.declared().user_number() == Some(oid.0) {
                let array = kind.domain.is_none() && kind.oid.element().is_some();
                let (table, column) = (Arc::clone(table), column.name.clone());
                found.push((Dependent::Column { table, position, column }, array));
            }
        }
    }
    // Dependents on arrays of a composite type are listed first.
    let composite = state.user_type(oid).is_some_and(|own| own.attributes().is_some());
    found.sort_by_key(|(dependent, array)| (composite && !array, dependent.place()));
    found
}

/// Finds a table, or a domain other than `own`, with a default or check that has a node satisfying
/// `test`. Returns it as messages call it.
pub(crate) fn expression_user(
    state: &CatalogState,
    own: Oid,
    test: impl Fn(&NodeEnum) -> bool,
) -> Result<Option<String>> {
    let satisfies = |text: &str| -> Result<bool> {
        let mut found = false;
        walk::each_node(text, |node| found |= test(node))?;
        Ok(found)
    };
    for relation in state.relations() {
        let defaults = relation.visible_columns().filter_map(|(_, c)| c.default.as_deref());
        let checks = relation.checks.iter().map(|check| check.expression.as_str());
        let conditions = relation.triggers.iter().filter_map(|trigger| trigger.when.as_deref());
        for text in defaults.chain(checks).chain(conditions) {
            if satisfies(text)? {
                return Ok(Some(format!("table {}", relation.name)));
            }
        }
    }
    for definition in state.user_types().filter(|definition| definition.oid != own) {
        let Some(domain) = definition.domain() else { continue };
        let checks = domain.checks.iter().map(|check| check.expression.as_str());
        for text in domain.default.as_deref().into_iter().chain(checks) {
            if satisfies(text)? {
                return Ok(Some(format!("domain {}", definition.name)));
            }
        }
    }
    Ok(None)
}
