//! Name resolution of columns.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::shift_depth;
use niwaki_parse::error::{Result, SqlError};
use pg_query::{NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Item, ItemColumn, Place, Scope, system_column};

impl Analyzer<'_> {
    /// Resolves a column, possibly of an enclosing query.
    pub(crate) fn column(&mut self, column: &protobuf::ColumnRef) -> Result<Expr> {
        let found = self.column_of_items(column);
        let unknown = |error: &SqlError| matches!(error.sqlstate, "42703" | "42P01");
        // A name that is no column may be a parameter of the enclosing function.
        if found.as_ref().is_err_and(unknown)
            && let Some(parameter) = self.parameter_named(column)?
        {
            return Ok(parameter);
        }
        found
    }

    fn column_of_items(&mut self, column: &protobuf::ColumnRef) -> Result<Expr> {
        let location = column.location;
        let names = names_of(&column.fields);
        if column.fields.iter().any(|f| matches!(f.node, Some(NodeEnum::AStar(_)))) {
            return match names.last() {
                Some(table) => self.row_of_item(table, location),
                None => Err(self.error(
                    "42601",
                    "row expansion via \"*\" is not supported here",
                    location,
                )),
            };
        }
        let (schema, table, name) = match names.as_slice() {
            [name] => (None, None, *name),
            [table, name] => (None, Some(*table), *name),
            [schema, table, name] => (Some(*schema), Some(*table), *name),
            _ => return Err(self.error("42601", "improper qualified name", location)),
        };
        let reads_nothing = |scope: &Scope| scope.place == Place::Default && scope.items.is_empty();
        if self.scopes.last().is_some_and(reads_nothing) {
            let message = "cannot use column reference in DEFAULT expression";
            return Err(self.error("0A000", message, location));
        }
        let mut table_seen = false;
        for depth in 0..self.scopes.len() {
            let level = self.scopes.len() - 1 - depth;
            let found = match self.lookup(level, schema, table, name, location)? {
                Lookup::Found(found) => found,
                Lookup::NoColumn => {
                    table_seen = true;
                    break;
                }
                Lookup::Nothing => continue,
            };
            return self.use_column(found, depth, location);
        }
        // A name that is no column may be a FROM item, and mean its whole row.
        for depth in 0..self.scopes.len() {
            let level = self.scopes.len() - 1 - depth;
            let item = self.scopes[level].items.iter().find(|item| item.name == name);
            let Some(item) = item.filter(|_| table.is_none()) else { continue };
            let found = match item.columns.first().filter(|_| item.lone) {
                Some(column) => column.expr.clone(),
                None => self.whole_row(item, location)?,
            };
            return self.use_column(found, depth, location);
        }
        if let Some(table) = table
            && !table_seen
        {
            if self.scopes.iter().any(|s| s.out_of_sight.iter().any(|name| name == table)) {
                return Err(self
                    .error(
                        "42P01",
                        format!("invalid reference to FROM-clause entry for table \"{table}\""),
                        location,
                    )
                    .with_hint(format!(
                        "There is an entry for table \"{table}\", but it cannot be referenced \
                         from this part of the query."
                    )));
            }
            let is_of = |item: &&Item| {
                item.relation.as_ref().is_some_and(|relation| relation.name == table)
            };
            let Some(item) = self.items_around().find(is_of) else {
                let message = format!("missing FROM-clause entry for table \"{table}\"");
                return Err(self.error("42P01", message, location));
            };
            let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
            return Err(self.error("42P01", message, location).with_hint(format!(
                "Perhaps you meant to reference the table alias \"{}\".",
                item.name
            )));
        }
        if matches!(name, "xmin" | "xmax" | "cmin" | "cmax") && !self.scopes.is_empty() {
            return Err(self.unsupported(format!("system column {name}"), location));
        }
        let shown = table.map_or_else(|| format!("\"{name}\""), |t| format!("{t}.{name}"));
        let error = self.error("42703", format!("column {shown} does not exist"), location);
        Err(match self.similar_columns(table, name) {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    /// Resolves `item.*` where columns cannot be listed: it means the item's row.
    fn row_of_item(&mut self, name: &str, location: i32) -> Result<Expr> {
        for depth in 0..self.scopes.len() {
            let level = self.scopes.len() - 1 - depth;
            let item = self.scopes[level].items.iter().find(|item| item.name == name);
            if let Some(item) = item {
                let found = self.whole_row(item, location)?;
                return self.use_column(found, depth, location);
            }
        }
        let message = format!("missing FROM-clause entry for table \"{name}\"");
        Err(self.error("42P01", message, location))
    }

    /// Marks the slots of a column as read, and shifts the column to the depth of the reader.
    ///
    /// # Errors
    /// 42P10 for a LATERAL reference that the enclosing join does not allow.
    pub(crate) fn use_column(
        &mut self,
        mut found: Expr,
        depth: usize,
        location: i32,
    ) -> Result<Expr> {
        let level = self.scopes.len() - 1 - depth;
        self.refuse_barred(&found, level, location)?;
        mark_used(&found, &mut self.scopes[level].used);
        if depth > 0 {
            shift_depth(&mut found, depth);
        }
        found.derived = self.of_domain(found.derived, &found);
        found.location = location;
        Ok(found)
    }

    /// Refuses a reference to the left side of a RIGHT or FULL join in its right side.
    fn refuse_barred(&self, found: &Expr, level: usize, location: i32) -> Result<()> {
        let scope = &self.scopes[level];
        if scope.barred.is_empty() {
            return Ok(());
        }
        let is_barred = |slot: usize| scope.barred.iter().any(|slots| slots.contains(&slot));
        let Some(slot) = slot_of(found, &is_barred) else { return Ok(()) };
        let mut items = scope.items.iter();
        let item = items.find(|item| (item.start..item.start + item.columns.len()).contains(&slot));
        let name = item.map_or("", |item| item.name.as_str());
        let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
        Err(self
            .error("42P10", message, location)
            .with_detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."))
    }

    fn lookup(
        &self,
        level: usize,
        schema: Option<&str>,
        table: Option<&str>,
        name: &str,
        location: i32,
    ) -> Result<Lookup> {
        let ambiguous =
            || self.error("42702", format!("column reference \"{name}\" is ambiguous"), location);
        let scope = &self.scopes[level];
        let Some(table) = table else {
            let mut found: Option<&ItemColumn> = None;
            for column in scope.items.iter().flat_map(|item| &item.columns) {
                if column.bare && !column.hidden && column.name == name {
                    if found.is_some() {
                        return Err(ambiguous());
                    }
                    found = Some(column);
                }
            }
            if let Some(found) = found {
                return Ok(Lookup::Found(found.expr.clone()));
            }
            let mut system = scope.items.iter().filter_map(|item| system_column(item, name));
            if let Some(found) = system.next() {
                self.check_system_column(level, name, location)?;
                if system.next().is_some() {
                    return Err(ambiguous());
                }
                return Ok(Lookup::Found(found));
            }
            return Ok(Lookup::Nothing);
        };
        // A schema in a view's text may have been renamed since. Item names are unique there, so
        // the schema is ignored.
        let schema = schema.filter(|_| !self.reads_view());
        let mut items = scope.items.iter().filter(|item| {
            item.name == table && schema.is_none_or(|s| item.schema.as_deref() == Some(s))
        });
        let Some(item) = items.next() else { return Ok(Lookup::Nothing) };
        if items.next().is_some() {
            return Err(self.error(
                "42P09",
                format!("table reference \"{table}\" is ambiguous"),
                location,
            ));
        }
        let mut columns = item.columns.iter().filter(|c| !c.hidden && c.name == name);
        match columns.next() {
            Some(_) if columns.next().is_some() => Err(ambiguous()),
            Some(column) => Ok(Lookup::Found(column.expr.clone())),
            None => match system_column(item, name) {
                Some(found) => {
                    self.check_system_column(level, name, location)?;
                    Ok(Lookup::Found(found))
                }
                None => Ok(Lookup::NoColumn),
            },
        }
    }

    /// Refuses system columns in MERGE WHEN conditions and CHECK constraints.
    fn check_system_column(&self, level: usize, name: &str, location: i32) -> Result<()> {
        let message = match self.scopes[level].place {
            Place::MergeWhen if name != "tableoid" => {
                format!("cannot use system column \"{name}\" in MERGE WHEN condition")
            }
            Place::Check if name != "tableoid" => {
                format!("system column \"{name}\" reference in check constraint is invalid")
            }
            _ => return Ok(()),
        };
        Err(self.error("42P10", message, location))
    }
}

enum Lookup {
    Found(Expr),
    /// The table exists, but not the column.
    NoColumn,
    Nothing,
}

/// Returns a slot that an expression of this level reads, and that `wanted` accepts.
fn slot_of(expr: &Expr, wanted: &dyn Fn(usize) -> bool) -> Option<usize> {
    if let ExprKind::Slot { depth: 0, slot } = &expr.kind
        && wanted(*slot)
    {
        return Some(*slot);
    }
    let mut found = None;
    expr.for_each_child(&mut |child| found = found.or_else(|| slot_of(child, wanted)));
    found
}

fn mark_used(expr: &Expr, used: &mut [bool]) {
    if let ExprKind::Slot { depth: 0, slot } = &expr.kind
        && let Some(flag) = used.get_mut(*slot)
    {
        *flag = true;
    }
    expr.for_each_child(&mut |child| mark_used(child, used));
}
