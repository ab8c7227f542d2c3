//! Stored expressions that name an object, as dependents of that object.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Column, Oid, Relation, TypeDefinition};
use niwaki_sql::{Named, Result, objects_named};
use niwaki_types::TypeOid;

use crate::definer::Definer;
use crate::object::Object;

/// Returns the parts of relations, domains and functions whose stored texts name an object that
/// satisfies `test`.
pub(crate) fn users_of(state: &CatalogState, test: impl Fn(&Named) -> bool) -> Result<Vec<Object>> {
    let names = |text: &str| -> Result<bool> { Ok(objects_named(text)?.iter().any(&test)) };
    let mut found = Vec::new();
    for relation in state.relations() {
        add_of_relation(relation, &test, &names, &mut found)?;
    }
    for definition in state.user_types() {
        let Some(domain) = definition.domain() else { continue };
        if domain.default.as_deref().map_or(Ok(false), &names)? {
            found.push(Object::Domain(definition.oid));
        }
        for check in &domain.checks {
            if names(&check.expression)? {
                let (domain, check) = (definition.oid, check.name.clone());
                found.push(Object::DomainCheck { domain, check });
            }
        }
    }
    for function in state.functions() {
        for input in function.inputs() {
            if input.default.as_deref().map_or(Ok(false), &names)? {
                found.push(Object::Function(function.oid));
            }
        }
    }
    Ok(found)
}

fn add_of_relation(
    relation: &Arc<Relation>,
    test: &impl Fn(&Named) -> bool,
    names: &impl Fn(&str) -> Result<bool>,
    found: &mut Vec<Object>,
) -> Result<()> {
    let table = relation.oid;
    for (column, definition) in relation.visible_columns() {
        let Some(text) = &definition.default else { continue };
        // An identity column owns its sequence, so it is no dependent.
        let drawn = definition.sequence.filter(|_| draws_by_name(definition));
        let draws = drawn.is_some_and(|sequence| test(&Named::Object(sequence)));
        if definition.identity.is_none() && (draws || names(text)?) {
            found.push(if definition.generated {
                Object::Column { table, column }
            } else {
                Object::Default { table, column }
            });
        }
    }
    for check in &relation.checks {
        if names(&check.expression)? {
            found.push(Object::Check { table, check: check.name.clone() });
        }
    }
    for trigger in relation.triggers.iter().filter(|trigger| trigger.part_of.is_none()) {
        if trigger.when.as_deref().map_or(Ok(false), names)? {
            found.push(Object::Trigger { table, trigger: trigger.oid });
        }
    }
    if let Some(index) = &relation.index {
        for expression in index.expressions() {
            if names(&expression.text)? {
                found.push(Object::Index { table: index.table, index: relation.oid });
                break;
            }
        }
    }
    Ok(())
}

/// Tests for the relation with this number, in a literal or as the sequence that a column draws
/// from.
pub(crate) fn names_relation(oid: Oid) -> impl Fn(&Named) -> bool {
    move |named| *named == Named::Object(oid)
}

/// Tests for the function with this number, in a call or in a literal.
pub(crate) fn names_function(oid: Oid) -> impl Fn(&Named) -> bool {
    move |named| matches!(named, Named::Function(of) | Named::Object(of) if *of == oid)
}

/// Tests for the type with this number.
pub(crate) fn names_type(oid: Oid) -> impl Fn(&Named) -> bool {
    move |named| *named == Named::Type(oid)
}

impl Definer<'_> {
    /// Returns the name of a part as messages call it.
    pub(crate) fn shown_part(&mut self, object: &Object) -> Result<String> {
        let state = self.state();
        let types = self.session.types();
        let of_type = |domain: Oid| {
            let shown = |definition: &Arc<TypeDefinition>| types.shown(definition.type_oid());
            state.user_type(domain).and_then(shown).unwrap_or_default()
        };
        Ok(match object {
            Object::Default { table, column } | Object::Column { table, column } => {
                let table = self.current(*table)?;
                let name = table.columns.get(*column).map_or("?", |column| column.name.as_str());
                let shown = format!("column {name} of table {}", self.shown_name(&table));
                match object {
                    Object::Default { .. } => format!("default value for {shown}"),
                    _ => shown,
                }
            }
            Object::Check { table, check } => {
                let table = self.current(*table)?;
                format!("constraint {check} on table {}", self.shown_name(&table))
            }
            Object::Index { index, .. } => {
                let index = self.current(*index)?;
                format!("index {}", self.shown_name(&index))
            }
            Object::Domain(domain) => format!("type {}", of_type(*domain)),
            Object::DomainCheck { check, .. } => format!("constraint {check}"),
            Object::ForeignKey { .. }
            | Object::View(_)
            | Object::Trigger { .. }
            | Object::Function(_) => String::new(),
        })
    }

    /// Removes a part, if it still exists.
    pub(crate) fn remove_part(&mut self, object: &Object) -> Result<()> {
        match object {
            Object::Default { table, column } => {
                let mut definition = self.current(*table)?.definition.clone();
                if let Some(column) = definition.columns.get_mut(*column) {
                    column.default = None;
                }
                self.update(definition)
            }
            Object::Column { table, column } => {
                let table = self.current(*table)?;
                match table.columns.get(*column).filter(|column| !column.dropped) {
                    Some(column) => self.drop_column(&table, &column.name, true, true),
                    None => Ok(()),
                }
            }
            Object::Check { table, check } => {
                let mut definition = self.current(*table)?.definition.clone();
                definition.checks.retain(|known| known.name != *check);
                self.update(definition)
            }
            Object::Index { index, .. } => self.remove_with_files(*index),
            Object::Domain(domain) => match self.state().user_type(*domain).cloned() {
                Some(definition) => self.drop_all(vec![definition], true),
                None => Ok(()),
            },
            Object::DomainCheck { domain, check } => {
                let Some(definition) = self.state().user_type(*domain).cloned() else {
                    return Ok(());
                };
                let mut definition = TypeDefinition::clone(&definition);
                if let niwaki_catalog::TypeKind::Domain(domain) = &mut definition.kind {
                    domain.checks.retain(|known| known.name != *check);
                }
                self.update_type(definition)
            }
            Object::ForeignKey { .. }
            | Object::View(_)
            | Object::Trigger { .. }
            | Object::Function(_) => Ok(()),
        }
    }

    /// Decides whether a part of a table or domain is dropped silently, together with a column or
    /// domain of these types.
    pub(crate) fn goes_with_type(&mut self, object: &Object, types: &[Oid]) -> Result<bool> {
        let going = |kind: TypeOid| kind.user_number().is_some_and(|n| types.contains(&Oid(n)));
        Ok(match object {
            Object::Domain(oid) | Object::DomainCheck { domain: oid, .. } => types.contains(oid),
            Object::Default { table, column } | Object::Column { table, column } => {
                let table = self.current(*table)?;
                table.columns.get(*column).is_some_and(|c| going(c.column_type().declared()))
            }
            Object::Check { table, check } => {
                let table = self.current(*table)?;
                let check = table.checks.iter().find(|known| known.name == *check);
                let text = check.map_or("", |check| check.expression.as_str());
                let read = self.session.columns_of_expression(text)?;
                let mut columns = read.iter().filter_map(|name| table.column_position(name));
                columns.any(|at| going(table.columns[at].column_type().declared()))
            }
            Object::Index { table, index } => {
                let table = self.current(*table)?;
                let at = table.indexes.iter().position(|known| known.oid == *index);
                let (Some(at), Some(opened)) = (at, &table.table) else { return Ok(false) };
                let mut columns = table.visible_columns();
                columns.any(|(column, definition)| {
                    going(definition.column_type().declared()) && opened.index_reads(at, column)
                })
            }
            Object::ForeignKey { .. }
            | Object::View(_)
            | Object::Trigger { .. }
            | Object::Function(_) => false,
        })
    }
}

/// Returns whether a column's default names its sequence by name, as older databases do.
pub(crate) fn draws_by_name(column: &Column) -> bool {
    let named = column.default.as_deref().and_then(|text| text.strip_prefix("nextval('"));
    named.is_some_and(|named| !named.starts_with(|c: char| c.is_ascii_digit()))
}
