//! Numbers of objects without a number in the catalog: constraints, defaults, view rules, enum
//! labels.

use std::sync::Arc;

use niwaki_types::{ColumnType, TypeOid};

use crate::definition::constraint::{Check, ConstraintTime};
use crate::definition::foreign_key::ForeignKey;
use crate::definition::relation_definition::Column;
use crate::definition::type_definition::DomainDefinition;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::relation::Relation;

/// Number of parts of a table or type with a number of their own: PostgreSQL's limit of columns.
/// Labels of an enum beyond this limit share the numbers of earlier labels. No code looks for a
/// label by its number.
const PARTS: u32 = 1600;
/// Most CHECK constraints of a table or domain. A check is found by its number, so each needs one.
pub const CHECKS_MAX: usize = PARTS as usize;
/// First number of a part. No object is likely to reach that number.
const FIRST_PART: u32 = 1 << 31;

/// Returns a number for a part of a table or type. The number stays the same while the definition
/// does.
fn part_number(table: Oid, number: usize) -> Oid {
    let number = u32::try_from(number).unwrap_or(0) % PARTS;
    Oid(FIRST_PART + table.0 % (FIRST_PART / PARTS) * PARTS + number)
}

/// Returns the number of a column's default, by the column's position from 0.
pub fn default_oid(table: Oid, column: usize) -> Oid {
    part_number(table, column)
}

/// Returns the number of the rule that makes a relation a view.
pub fn rule_oid(view: Oid) -> Oid {
    part_number(view, 0)
}

/// Returns the number of a CHECK constraint, by its position in the list of the table or domain.
pub fn check_oid(table: Oid, position: usize) -> Oid {
    part_number(table, position)
}

/// Returns the number of an enum's label, by its place in the type's list.
pub fn label_oid(type_number: Oid, place: usize) -> Oid {
    part_number(type_number, place)
}

/// Columns of the one row of a sequence.
pub const SEQUENCE_COLUMNS: [(&str, TypeOid); 3] =
    [("last_value", TypeOid::INT8), ("log_cnt", TypeOid::INT8), ("is_called", TypeOid::BOOL)];

/// A constraint of a table.
#[derive(Clone, Copy, Debug)]
pub enum TableConstraint<'c> {
    /// PRIMARY KEY or UNIQUE, with the number and name of its index.
    Index(&'c Arc<Relation>),
    /// CHECK.
    Check(&'c Check),
    /// FOREIGN KEY, with a number of its own.
    ForeignKey(&'c ForeignKey),
}

/// A constraint with its number and table.
#[derive(Clone, Copy, Debug)]
pub struct NumberedConstraint<'c> {
    /// Number.
    pub oid: Oid,
    /// The table.
    pub table: &'c Arc<Relation>,
    /// The constraint itself.
    pub constraint: TableConstraint<'c>,
}

impl NumberedConstraint<'_> {
    /// Returns the name of the constraint.
    pub fn name(&self) -> &str {
        match self.constraint {
            TableConstraint::Index(index) => &index.name,
            TableConstraint::Check(check) => &check.name,
            TableConstraint::ForeignKey(key) => &key.name,
        }
    }

    /// Returns the text of COMMENT ON CONSTRAINT.
    pub fn comment(&self) -> Option<&str> {
        match self.constraint {
            TableConstraint::Index(index) => index.index.as_ref()?.constraint_comment.as_deref(),
            TableConstraint::Check(check) => check.comment.as_deref(),
            TableConstraint::ForeignKey(key) => key.comment.as_deref(),
        }
    }

    /// Returns the time at which the constraint is checked.
    pub fn check_time(&self) -> ConstraintTime {
        match self.constraint {
            TableConstraint::Index(index) => {
                index.index.as_ref().map(|index| index.check_time).unwrap_or_default()
            }
            TableConstraint::Check(_) => ConstraintTime::AtOnce,
            TableConstraint::ForeignKey(key) => key.check_time,
        }
    }

    /// Decides whether all rows are known to obey the constraint. After NOT VALID, older rows are
    /// unknown.
    pub fn is_validated(&self) -> bool {
        match self.constraint {
            TableConstraint::Index(_) => true,
            TableConstraint::Check(check) => !check.not_valid,
            TableConstraint::ForeignKey(key) => !key.not_valid,
        }
    }
}

impl CatalogState {
    /// Returns the constraints of a table: first index constraints, then checks, then foreign keys.
    pub fn constraints_of<'c>(&'c self, table: &'c Arc<Relation>) -> Vec<NumberedConstraint<'c>> {
        let held = table.indexes.iter().filter(|entry| entry.definition.constraint.is_some());
        let held = held.filter_map(|entry| self.relation(entry.oid)).map(|index| {
            let constraint = TableConstraint::Index(index);
            NumberedConstraint { oid: index.oid, table, constraint }
        });
        let checks = table.checks.iter().enumerate().map(|(position, check)| {
            let constraint = TableConstraint::Check(check);
            NumberedConstraint { oid: check_oid(table.oid, position), table, constraint }
        });
        let keys = table.foreign_keys.iter().map(|key| {
            let constraint = TableConstraint::ForeignKey(key);
            NumberedConstraint { oid: key.oid, table, constraint }
        });
        held.chain(checks).chain(keys).collect()
    }

    /// Returns the constraint with this number.
    pub fn constraint(&self, oid: Oid) -> Option<NumberedConstraint<'_>> {
        if let Some((table, key)) = self.foreign_key(oid) {
            let constraint = TableConstraint::ForeignKey(key);
            return Some(NumberedConstraint { oid, table, constraint });
        }
        if oid.0 < FIRST_PART {
            let index = self.relation(oid)?.index.as_ref()?;
            let table = self.relation(index.table)?;
            return self.constraints_of(table).into_iter().find(|found| found.oid == oid);
        }
        self.tables()
            .flat_map(|table| self.constraints_of(table))
            .find(|constraint| constraint.oid == oid)
    }

    /// Returns the check of a domain with this number, and the domain.
    pub fn domain_check(&self, oid: Oid) -> Option<(&DomainDefinition, &Check)> {
        self.user_types().find_map(|definition| {
            let domain = definition.domain()?;
            let mut checks = domain.checks.iter().enumerate();
            let found = checks.find(|(at, _)| check_oid(definition.oid, *at) == oid);
            found.map(|(_, check)| (domain, check))
        })
    }

    /// Returns the relations in the order of their numbers.
    pub fn in_order(&self) -> Vec<&Arc<Relation>> {
        let mut all: Vec<_> = self.relations().collect();
        all.sort_unstable_by_key(|relation| relation.oid);
        all
    }
}

impl Relation {
    /// Returns the columns of the relation's rows, dropped ones included. An index has its keys and
    /// INCLUDE columns, with the names and types of `pg_attribute`.
    pub fn shown_columns(&self, state: &CatalogState) -> Vec<Column> {
        let own = |name: String, type_oid: u32, typmod: i32| {
            let column_type = ColumnType::with_typmod(TypeOid(type_oid), typmod);
            Column { not_null: self.sequence.is_some(), ..Column::new(name, column_type) }
        };
        if self.sequence.is_some() {
            return SEQUENCE_COLUMNS.map(|(name, kind)| own(name.to_owned(), kind.0, -1)).into();
        }
        let Some(index) = &self.index else { return self.columns.clone() };
        let Some(table) = state.relation(index.table) else { return Vec::new() };
        let keys = index.key.iter().map(|key| (key.column, key.expression.as_ref()));
        let included = index.include.iter().map(|column| (*column, None));
        let mut columns: Vec<Column> = Vec::new();
        for (position, expression) in keys.chain(included) {
            let (base, type_oid, typmod) =
                match (expression, table.columns.get(usize::from(position))) {
                    (Some(expression), _) => (called(&expression.shown), expression.type_oid, -1),
                    (None, Some(column)) => (column.name.as_str(), column.type_oid, column.typmod),
                    (None, None) => continue,
                };
            // A repeated name gets a number.
            let mut name = base.to_owned();
            let mut count = 0u32;
            while columns.iter().any(|column| column.name == name) {
                count += 1;
                name = format!("{base}{count}");
            }
            columns.push(own(name, type_oid, typmod));
        }
        columns
    }
}

/// Returns the column name of an expression: the name of the called function, else `expr`.
fn called(expression: &str) -> &str {
    match expression.split_once('(') {
        Some((name, _))
            if expression.ends_with(')')
                && !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') =>
        {
            name
        }
        _ => "expr",
    }
}
