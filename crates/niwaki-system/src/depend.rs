//! `pg_depend`: dependencies between objects.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Oid, Relation, TableConstraint, TypeDefinition, check_oid, default_oid, rule_oid,
};
use niwaki_sql::{Named, objects_named};
use niwaki_types::TypeOid;

use crate::class_numbers::{
    ATTRDEF, CLASS, CONSTRAINT, LANGUAGE, NAMESPACE, PROC, REWRITE, TRIGGER, TYPE,
};
use crate::constraints::{constraint_columns, numbers_of, part_of};
use crate::names::columns_read;
use crate::pg_class::routines::{PLPGSQL, language_of};
use crate::stored_types::{in_order, row_type};
use crate::system_relation::{Computed, Emit, Reader, Result, int4, number, text};

pub(crate) const PG_DEPEND: Computed = Computed {
    name: "pg_depend",
    columns: &["classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "deptype"],
    keys: &["objid"],
    rows: pg_depend,
};

/// An object: its catalog, its number, and the number of its column.
type Object = (Oid, Oid, usize);

/// Emits that the second object needs the first, and how.
fn depends(emit: Emit<'_>, on: Object, object: Object, kind: &str) -> Result<()> {
    let [class, oid, column] = [number(object.0), number(object.1), int4(object.2)];
    emit(&[class, oid, column, number(on.0), number(on.1), int4(on.2), text(kind)])
}

/// Returns the object of a type; `None` for PostgreSQL's own types, which always exist.
fn of_type(oid: TypeOid) -> Option<Object> {
    oid.user_number().map(|_| (TYPE, Oid(oid.0), 0))
}

fn pg_depend(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let named = reader.wanted_oid("objid").and_then(|oid| state.relation(Oid(oid)));
    let wanted = match named {
        // The number of an index may be the number of a constraint, and the constraint belongs to
        // the table.
        Some(relation) => {
            let table = relation.index.as_ref().and_then(|index| state.relation(index.table));
            table.into_iter().chain([relation]).collect()
        }
        // A default, a check or a rule may belong to any relation.
        None => state.in_order(),
    };
    for relation in wanted.into_iter().filter(|relation| relation.view.is_none()) {
        dependencies(reader, relation, emit)?;
    }
    if named.is_some() {
        return Ok(());
    }
    for function in state.functions() {
        let own = (PROC, function.oid, 0);
        let language = (LANGUAGE, Oid(language_of(function)));
        // PostgreSQL's own languages always exist.
        let language = (language.1.0 == PLPGSQL).then_some(language);
        for (class, oid) in [(NAMESPACE, function.schema)].into_iter().chain(language) {
            depends(emit, (class, oid, 0), own, "n")?;
        }
        let parameters = function.parameters.iter().map(|parameter| &parameter.kind);
        let mut types: Vec<u32> = function.arguments.iter().chain(parameters).copied().collect();
        types.push(function.returns);
        types.sort_unstable();
        types.dedup();
        for kind in types.into_iter().filter_map(|oid| of_type(TypeOid(oid))) {
            depends(emit, kind, own, "n")?;
        }
    }
    for definition in in_order(state) {
        dependencies_of_type(state, definition, emit)?;
    }
    Ok(())
}

/// Emits the dependencies of a type and of a domain's constraints. The order of a `pg_dump` needs
/// them: a composite type has a relation, which needs the types of its attributes.
fn dependencies_of_type(
    state: &CatalogState,
    definition: &TypeDefinition,
    emit: Emit<'_>,
) -> Result<()> {
    let oid = definition.type_oid();
    let own = (TYPE, Oid(oid.0), 0);
    depends(emit, (NAMESPACE, definition.schema, 0), own, "n")?;
    if let Some(array) = oid.array() {
        depends(emit, own, (TYPE, Oid(array.0), 0), "i")?;
    }
    if let Some(attributes) = definition.attributes() {
        depends(emit, own, (CLASS, definition.oid, 0), "i")?;
        for (at, attribute) in attributes.iter().enumerate() {
            if let Some(kind) = of_type(attribute.column_type().declared()) {
                depends(emit, kind, (CLASS, definition.oid, at + 1), "n")?;
            }
        }
    }
    let Some(domain) = definition.domain() else { return Ok(()) };
    if let Some(below) = of_type(domain.below().declared()) {
        depends(emit, below, own, "n")?;
    }
    for object in named_in(domain.default.as_deref().unwrap_or_default(), state) {
        depends(emit, object, own, "n")?;
    }
    for (position, check) in domain.checks.iter().enumerate() {
        let constraint = (CONSTRAINT, check_oid(definition.oid, position), 0);
        depends(emit, own, constraint, "a")?;
        for object in named_in(&check.expression, state) {
            depends(emit, object, constraint, "n")?;
        }
    }
    Ok(())
}

/// Returns the functions, types and user relations that a stored expression names.
fn named_in(text: &str, state: &CatalogState) -> Vec<Object> {
    let class = |named: Named| match named {
        Named::Function(oid) => Some((PROC, oid, 0)),
        Named::Object(oid) if state.function(oid).is_some() => Some((PROC, oid, 0)),
        Named::Object(oid) if oid >= Oid::FIRST_USER && state.relation(oid).is_some() => {
            Some((CLASS, oid, 0))
        }
        Named::Type(oid) => of_type(state.user_type(oid)?.type_oid()),
        Named::Object(_) => None,
    };
    objects_named(text).unwrap_or_default().into_iter().filter_map(class).collect()
}

/// Emits the dependencies of a relation and of all that belongs to it.
fn dependencies(reader: &Reader<'_>, relation: &Arc<Relation>, emit: Emit<'_>) -> Result<()> {
    dependencies_of_place(relation, emit)?;
    dependencies_of_types(relation, emit)?;
    let own = (CLASS, relation.oid, 0);
    if let Some(of) = &relation.partition_of {
        depends(emit, (CLASS, of.parent, 0), own, "a")?;
    }
    dependencies_of_query(reader, relation, emit)?;
    dependencies_of_sequence(reader, relation, emit)?;
    dependencies_of_defaults(reader, relation, emit)?;
    dependencies_of_triggers(relation, emit)?;
    dependencies_of_constraints(reader, relation, emit)
}

/// Emits what a relation itself needs: an index its table or its constraint, others their schema.
fn dependencies_of_place(relation: &Relation, emit: Emit<'_>) -> Result<()> {
    let own = (CLASS, relation.oid, 0);
    match &relation.index {
        Some(index) if index.constraint.is_some() => {
            depends(emit, (CONSTRAINT, relation.oid, 0), own, "i")?;
        }
        Some(index) => {
            for key in &index.key {
                // An expression depends on the table as a whole here. That is precise enough for a
                // client that drops objects in order.
                let column = if key.expression.is_some() { 0 } else { usize::from(key.column) + 1 };
                depends(emit, (CLASS, index.table, column), own, "a")?;
            }
        }
        None => depends(emit, (NAMESPACE, relation.schema, 0), own, "n")?,
    }
    if let Some(index) = &relation.index
        && let Some(above) = index.part_of
    {
        depends(emit, (CLASS, above, 0), own, "P")?;
        depends(emit, (CLASS, index.table, 0), own, "S")?;
    }
    Ok(())
}

/// Emits that a relation's row type needs the relation, and that columns need their types.
fn dependencies_of_types(relation: &Relation, emit: Emit<'_>) -> Result<()> {
    let own = (CLASS, relation.oid, 0);
    if let Some(rows) = row_type(relation) {
        let kind = (TYPE, Oid(rows.0), 0);
        depends(emit, own, kind, "i")?;
        if let Some(array) = rows.array() {
            depends(emit, kind, (TYPE, Oid(array.0), 0), "i")?;
        }
    }
    for (at, column) in relation.visible_columns() {
        if let Some(kind) = of_type(column.column_type().declared()) {
            depends(emit, kind, (CLASS, relation.oid, at + 1), "n")?;
        }
    }
    Ok(())
}

/// Emits what the rule of a view needs: the types and columns that the view's query names.
fn dependencies_of_query(reader: &Reader<'_>, relation: &Relation, emit: Emit<'_>) -> Result<()> {
    let own = (CLASS, relation.oid, 0);
    let Some(query) = &relation.query else { return Ok(()) };
    let rule = (REWRITE, rule_oid(relation.oid), 0);
    for kind in ["i", "n"] {
        depends(emit, own, rule, kind)?;
    }
    let types = query.types.iter().filter_map(|oid| reader.state.user_type(*oid));
    for kind in types.filter_map(|found| of_type(found.type_oid())) {
        depends(emit, kind, rule, "n")?;
    }
    for source in &query.sources {
        // Built-in relations always exist and need no dependency.
        let Some(read) = reader.state.relation(source.relation) else { continue };
        if read.is_system() {
            continue;
        }
        if read.index.is_some() {
            // A key of the view's GROUP BY that determines other columns.
            depends(emit, (CONSTRAINT, read.oid, 0), rule, "n")?;
        } else if source.columns.is_empty() {
            depends(emit, (CLASS, source.relation, 0), rule, "n")?;
        }
        for column in numbers_of(&source.columns) {
            depends(emit, (CLASS, source.relation, column), rule, "n")?;
        }
    }
    Ok(())
}

/// Emits that a sequence needs the column that owns it.
fn dependencies_of_sequence(
    reader: &Reader<'_>,
    relation: &Relation,
    emit: Emit<'_>,
) -> Result<()> {
    let own = (CLASS, relation.oid, 0);
    if let Some((table, column)) = relation.sequence.as_ref().and_then(|s| s.owned_by) {
        let owner = reader.state.relation(table);
        let identity = owner
            .and_then(|table| table.columns.get(usize::from(column)))
            .is_some_and(|column| column.identity.is_some());
        let kind = if identity { "i" } else { "a" };
        depends(emit, (CLASS, table, usize::from(column) + 1), own, kind)?;
    }
    Ok(())
}

/// Emits what the defaults and generation expressions of a relation's columns need.
fn dependencies_of_defaults(
    reader: &Reader<'_>,
    relation: &Relation,
    emit: Emit<'_>,
) -> Result<()> {
    for (at, column) in relation.visible_columns() {
        if column.default.is_none() || column.identity.is_some() {
            continue;
        }
        let default = (ATTRDEF, default_oid(relation.oid, at), 0);
        let kind = if column.generated { "i" } else { "a" };
        depends(emit, (CLASS, relation.oid, at + 1), default, kind)?;
        if let Some(expression) = column.default.as_ref().filter(|_| column.generated) {
            for read in columns_read(relation, expression) {
                depends(emit, (CLASS, relation.oid, read), default, "n")?;
            }
        }
        if let Some(sequence) = column.sequence {
            depends(emit, (CLASS, sequence, 0), default, "n")?;
        }
        let named = named_in(column.default.as_deref().unwrap_or_default(), reader.state);
        for object in named.into_iter().filter(|(_, oid, _)| column.sequence != Some(*oid)) {
            depends(emit, object, default, "n")?;
        }
    }
    Ok(())
}

/// Emits that a trigger needs its table, its function, and the columns that it names.
fn dependencies_of_triggers(relation: &Relation, emit: Emit<'_>) -> Result<()> {
    for trigger in &relation.triggers {
        let object = (TRIGGER, trigger.oid, 0);
        depends(emit, (CLASS, relation.oid, 0), object, "a")?;
        if trigger.function >= Oid::FIRST_USER {
            depends(emit, (PROC, trigger.function, 0), object, "n")?;
        }
        let mut columns: Vec<usize> = trigger.columns.iter().copied().map(usize::from).collect();
        if let Some(when) = &trigger.when {
            columns.extend(niwaki_sql::condition_columns(when, relation).unwrap_or_default());
        }
        columns.sort_unstable();
        columns.dedup();
        for column in columns {
            depends(emit, (CLASS, relation.oid, column + 1), object, "n")?;
        }
    }
    Ok(())
}

/// Emits that a constraint needs its columns, and the objects that it names.
fn dependencies_of_constraints(
    reader: &Reader<'_>,
    relation: &Arc<Relation>,
    emit: Emit<'_>,
) -> Result<()> {
    for constraint in reader.state.constraints_of(relation) {
        let object = (CONSTRAINT, constraint.oid, 0);
        if let Some(above) = part_of(reader.state, &constraint) {
            depends(emit, (CONSTRAINT, above, 0), object, "P")?;
            depends(emit, (CLASS, relation.oid, 0), object, "S")?;
        }
        for column in constraint_columns(&constraint) {
            depends(emit, (CLASS, relation.oid, column), object, "a")?;
            // The columns of a check constraint and the columns that its expression reads are two
            // dependencies.
            if let TableConstraint::Check(_) = constraint.constraint {
                depends(emit, (CLASS, relation.oid, column), object, "n")?;
            }
        }
        if let TableConstraint::Check(check) = constraint.constraint {
            for needed in named_in(&check.expression, reader.state) {
                depends(emit, needed, object, "n")?;
            }
        }
        if let TableConstraint::ForeignKey(key) = constraint.constraint {
            for column in numbers_of(&key.referenced) {
                depends(emit, (CLASS, key.references, column), object, "n")?;
            }
            depends(emit, (CLASS, key.index, 0), object, "n")?;
        }
    }
    Ok(())
}
