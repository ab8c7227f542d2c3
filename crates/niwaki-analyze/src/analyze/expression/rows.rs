//! Row constructors, which are compared part by part.
//!
//! `(a, b) < (c, d)` becomes `a <= c AND (a < c OR b < d)`. Both are true, false and unknown in the
//! same cases. PostgreSQL looks at the first two parts that are not equal; the result is unknown if
//! one of them is NULL. In the rewritten form, an index on `a` gets a bound.

use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::volatile_inside;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::TypeOid;
use pg_query::protobuf::{RowExpr, SubLink, SubLinkType};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::expression::expr::copy_of;

/// Returns the row constructor that a syntax node is, if it is one.
pub(crate) fn row_of(node: Option<&Node>) -> Option<&RowExpr> {
    match node?.node.as_ref()? {
        NodeEnum::RowExpr(row) => Some(row),
        _ => None,
    }
}

/// Returns the nested single-row query that a syntax node is, if it is one.
fn query_for_row(node: Option<&Node>) -> Option<&SubLink> {
    match node?.node.as_ref()? {
        NodeEnum::SubLink(link) if link.sub_link_type() == SubLinkType::ExprSublink => Some(link),
        _ => None,
    }
}

/// Returns whether two operands are compared part by part.
///
/// The operands must be two row constructors, or a row constructor and a nested query. A row
/// constructor next to any other operand is a value.
pub(crate) fn compares_rows(left: Option<&Node>, right: Option<&Node>) -> bool {
    match (row_of(left), row_of(right)) {
        (Some(_), Some(_)) => true,
        (Some(_), None) => query_for_row(right).is_some(),
        (None, Some(_)) => query_for_row(left).is_some(),
        (None, None) => false,
    }
}

impl Analyzer<'_> {
    /// Analyzes `(a, b) op (c, d)` or `(a, b) op (query)`. A query on the left side is refused.
    pub(crate) fn row_comparison(
        &mut self,
        name: &str,
        left: Option<&Node>,
        right: Option<&Node>,
        location: i32,
    ) -> Result<Expr> {
        if let (Some(row), Some(link)) = (row_of(left), query_for_row(right)) {
            return self.row_beside_query(name, row, link, location);
        }
        let pairs = self.row_pairs(left, right, location)?;
        self.compared_pairs(name, pairs, location)
    }

    /// Returns the comparison of two rows, given as pairs of parts.
    pub(crate) fn compared_pairs(
        &mut self,
        name: &str,
        pairs: Vec<(Expr, Expr)>,
        location: i32,
    ) -> Result<Expr> {
        let mut parts = Vec::with_capacity(pairs.len());
        for (left, right) in &pairs {
            let part = self.operator(name, Some(left.clone()), right.clone(), location)?;
            if part.ty != TypeOid::BOOL {
                let message = format!(
                    "row comparison operator must yield type boolean, not type {}",
                    self.format_oid(part.ty)
                );
                return Err(self.error("42804", message, location));
            }
            parts.push(part);
        }
        match name {
            "<" | "<=" | ">" | ">=" => self.row_order(name, pairs, parts, location),
            "=" | "<>" => Ok(combined(parts, name == "=", location)),
            _ if pairs.len() == 1 => Ok(combined(parts, true, location)),
            _ => {
                let message =
                    format!("could not determine interpretation of row comparison operator {name}");
                let hint =
                    "Row comparison operators must be associated with btree operator families.";
                Err(self.error("0A000", message, location).with_hint(hint))
            }
        }
    }

    /// Analyzes `IS [NOT] DISTINCT FROM` of two rows.
    pub(crate) fn row_distinct(
        &mut self,
        left: Option<&Node>,
        right: Option<&Node>,
        negated: bool,
        location: i32,
    ) -> Result<Expr> {
        let mut parts = Vec::new();
        for (left, right) in self.row_pairs(left, right, location)? {
            parts.push(self.distinct(left, right, negated, location)?);
        }
        Ok(combined(parts, negated, location))
    }

    /// Analyzes `(a, b) IS [NOT] NULL`, which tests each part.
    pub(crate) fn row_null_test(
        &mut self,
        row: &RowExpr,
        negated: bool,
        location: i32,
    ) -> Result<Expr> {
        self.refuse_long_row(row.args.len(), row.location)?;
        let mut parts = Vec::with_capacity(row.args.len());
        for part in &row.args {
            let argument = self.expr(part)?;
            let argument = Box::new(self.to_output(argument)?);
            let kind = ExprKind::IsNull { argument, negated };
            parts.push(Expr::new(kind, TypeOid::BOOL, location));
        }
        Ok(combined(parts, true, location))
    }

    /// Analyzes `(a, b) [NOT] IN ((c, d), …)`. `name` is the operator of the comparisons.
    pub(crate) fn row_in_list(
        &mut self,
        name: &str,
        left: Option<&Node>,
        items: &[Node],
        location: i32,
    ) -> Result<Expr> {
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            if compares_rows(left, Some(item)) {
                parts.push(self.row_comparison(name, left, Some(item), location)?);
                continue;
            }
            let (left, item) = (self.expr_of(left)?, self.expr(item)?);
            parts.push(self.operator(name, Some(left), item, location)?);
        }
        Ok(combined(parts, name == "<>", location))
    }

    /// Returns the parts of two rows as pairs.
    fn row_pairs(
        &mut self,
        left: Option<&Node>,
        right: Option<&Node>,
        location: i32,
    ) -> Result<Vec<(Expr, Expr)>> {
        let (Some(left), Some(right)) = (row_of(left), row_of(right)) else {
            let row = row_of(left).or(row_of(right)).map_or(location, |row| row.location);
            return Err(self.unsupported("a row constructor beside something else", row));
        };
        self.refuse_long_row(left.args.len(), left.location)?;
        self.refuse_long_row(right.args.len(), right.location)?;
        if left.args.len() != right.args.len() {
            let message = "unequal number of entries in row expressions";
            return Err(self.error("42601", message, location));
        }
        if left.args.is_empty() {
            let message = "cannot compare rows of zero length";
            return Err(self.error("0A000", message, location));
        }
        let pairs = left.args.iter().zip(&right.args);
        pairs.map(|(left, right)| Ok((self.expr(left)?, self.expr(right)?))).collect()
    }

    /// Returns the order comparison of two rows. `compared` has the comparisons of the parts by the
    /// operator itself.
    fn row_order(
        &mut self,
        name: &str,
        mut pairs: Vec<(Expr, Expr)>,
        mut compared: Vec<Expr>,
        location: i32,
    ) -> Result<Expr> {
        let last = pairs.pop().and_then(|_| compared.pop());
        let last = last.ok_or_else(|| SqlError::internal("a comparison of rows without parts"))?;
        self.ordered(name, pairs.into_iter(), last, location)
    }

    /// Returns the order comparison of the remaining pairs, with `last` innermost. Each pair's
    /// comparison is nested in the previous one. Building it uses as much stack as its tree needs
    /// later.
    fn ordered(
        &mut self,
        name: &str,
        mut pairs: std::vec::IntoIter<(Expr, Expr)>,
        last: Expr,
        location: i32,
    ) -> Result<Expr> {
        let Some((left, right)) = pairs.next() else { return Ok(last) };
        // Each part is evaluated twice.
        if volatile_inside(&left) || volatile_inside(&right) {
            let what = format!("a volatile function in a row compared with {name}");
            return Err(self.unsupported(what, location));
        }
        let behind = stack::deeper(|| self.ordered(name, pairs, last, location))?;
        let (strict, or_equal) = if name.starts_with('<') { ("<", "<=") } else { (">", ">=") };
        let before = self.operator(strict, Some(copy_of(&left)?), copy_of(&right)?, location)?;
        let not_behind = self.operator(or_equal, Some(left), right, location)?;
        let or = Expr::new(ExprKind::Or(vec![before, behind]), TypeOid::BOOL, location);
        Ok(Expr::new(ExprKind::And(vec![not_behind, or]), TypeOid::BOOL, location))
    }
}

/// Combines conditions with AND (`all`) or OR.
fn combined(mut parts: Vec<Expr>, all: bool, location: i32) -> Expr {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let kind = if all { ExprKind::And(parts) } else { ExprKind::Or(parts) };
    Expr::new(kind, TypeOid::BOOL, location)
}
