//! Collation conflicts: refuses expressions whose parts have incompatible collations.

use niwaki_catalog::{Oid, collation_name};
use niwaki_expr::expr::collation::{STRING_COMPARISON, is_collated};
use niwaki_expr::expr::{Collation, Expr};
use niwaki_parse::collation::refuse_uncollated;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::analyze::Analyzer;

impl Analyzer<'_> {
    /// Refuses an expression with two contradicting COLLATE clauses, or with a function that needs
    /// a collation and has none.
    pub(crate) fn check_collation(&self, expr: &Expr) -> Result<()> {
        match expr.derived {
            Collation::Mismatch(one, two, at) => {
                let message = mismatch("explicit", one, two);
                Err(self.error("42P21", message, at))
            }
            Collation::Needed(what) => Err(indeterminate(what)),
            _ => Ok(()),
        }
    }

    /// Refuses a sort key or a DISTINCT column without a definite collation.
    pub(crate) fn check_order_collation(&self, expr: &Expr) -> Result<()> {
        match expr.derived {
            Collation::Unclear(one, two) => {
                let error = self.error("42P21", mismatch("implicit", one, two), expr.location);
                Err(error.with_hint(
                    "You can choose the collation by applying the COLLATE clause to one or both expressions.",
                ))
            }
            Collation::Lost => Err(indeterminate(STRING_COMPARISON)),
            _ => self.check_collation(expr),
        }
    }

    /// Returns the collation of a column of a set operation or VALUES list. `values` has one
    /// collation for each query or row.
    ///
    /// # Errors
    /// `42P21` if the collation is unclear and `needed`, or if two COLLATE clauses contradict each
    /// other.
    pub(crate) fn column_of_values(
        &self,
        values: impl IntoIterator<Item = Collation>,
        needed: bool,
        location: i32,
    ) -> Result<Collation> {
        let together = values.into_iter().reduce(Collation::with).unwrap_or_default();
        match together {
            Collation::Unclear(one, two) if needed => {
                let error = self.error("42P21", mismatch("implicit", one, two), location);
                Err(error.with_hint(
                    "You can choose the collation by applying the COLLATE clause to one or both expressions.",
                ))
            }
            Collation::Mismatch(one, two, at) => {
                Err(self.error("42P21", mismatch("explicit", one, two), at))
            }
            together => Ok(together.settled()),
        }
    }

    /// Analyzes `COLLATION FOR (value)`, which returns the quoted name of the collation.
    pub(crate) fn collation_for(&self, value: &Expr, location: i32) -> Result<Expr> {
        let text = |value| Ok(Expr::constant(value, TypeOid::TEXT, location));
        if !is_collated(value.ty) {
            return Err(refuse_uncollated(&self.format_oid(value.declared())));
        }
        // A literal has no type yet.
        if value.ty == TypeOid::UNKNOWN && value.derived == Collation::Default {
            return text(Datum::Null);
        }
        let name = value.derived.oid().and_then(collation_name);
        text(name.map_or(Datum::Null, |name| Datum::text(&quote_identifier(name))))
    }

    /// Returns the collation of a field of a composite value.
    pub(crate) fn collation_of_field(&self, record: TypeOid, at: usize, field: &Expr) -> Collation {
        let catalog = self.context.catalog;
        let number = record.user_number().filter(|_| record.is_composite()).map(Oid);
        let attributes = number.and_then(|number| catalog.user_type(number)?.attributes());
        let given = match (attributes, number) {
            (Some(attributes), _) => attributes.get(at).and_then(|attribute| attribute.collation),
            (None, Some(number)) => {
                let relation = catalog.relation(number);
                let column = relation.and_then(|relation| relation.visible_columns().nth(at));
                column.and_then(|(_, column)| column.collation)
            }
            (None, None) => None,
        };
        self.of_domain(Collation::of_column(given, field.ty), field)
    }

    /// Returns the collation of a value: if it has the default collation, its domain's collation
    /// applies.
    pub(crate) fn of_domain(&self, given: Collation, value: &Expr) -> Collation {
        let Some(_) = value.domain.filter(|_| given == Collation::Default) else { return given };
        let own = self.context.catalog.own_collation(value.column_type());
        own.filter(|own| *own != niwaki_expr::expr::collation::DEFAULT)
            .map_or(given, Collation::Implicit)
    }
}

fn mismatch(how: &str, one: Oid, two: Oid) -> String {
    let name = |oid| collation_name(oid).unwrap_or_default();
    format!("collation mismatch between {how} collations \"{}\" and \"{}\"", name(one), name(two))
}

fn indeterminate(what: &str) -> SqlError {
    SqlError::new("42P22", format!("could not determine which collation to use for {what}"))
        .with_hint("Use the COLLATE clause to set the collation explicitly.")
}
