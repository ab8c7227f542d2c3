//! Domain values: inserts the checks of domains into expressions.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::{Collation, DomainRules, Expr, ExprKind};
use niwaki_expr::query::volatile_inside;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ColumnType, TypeOid};

use crate::analyze::Analyzer;
use crate::analyze::stored::text::Form;

impl Analyzer<'_> {
    /// Coerces an expression of the base type to a domain, with a check; or to no domain.
    pub(crate) fn as_domain(&mut self, expr: Expr, domain: Option<TypeOid>) -> Result<Expr> {
        let Some(oid) = domain else { return Ok(Expr { domain: None, ..expr }) };
        let rules = if let Some(rules) = self.domains.get(&oid) {
            Arc::clone(rules)
        } else {
            let rules = Arc::new(self.domain_rules(oid)?);
            self.domains.insert(oid, Arc::clone(&rules));
            rules
        };
        let value = checked(expr, rules);
        // A domain's own collation applies to its values, whatever expressions they come from.
        let derived = match self.of_domain(Collation::Default, &value) {
            Collation::Default => value.derived,
            own => own,
        };
        Ok(Expr { derived, ..value })
    }

    fn domain_rules(&self, oid: TypeOid) -> Result<DomainRules> {
        let catalog = self.context.catalog;
        if self.open_domains.contains(&oid) {
            return Err(SqlError::unsupported("a domain whose constraints use the domain itself"));
        }
        let mut open = self.open_domains.clone();
        open.push(oid);
        let missing = || SqlError::unsupported("a domain where its definition is not at hand");
        let definition = oid.user_number().and_then(|number| catalog.user_type(Oid(number)));
        let definition = definition.ok_or_else(missing)?;
        let mut rules = DomainRules {
            oid,
            shown: self.format_oid(oid),
            name: definition.name.clone(),
            schema: self.schema_name(definition.schema),
            not_null: false,
            checks: Vec::new(),
            volatile: false,
        };
        let chain = catalog.domain_chain(oid);
        for domain in chain.into_iter().rev() {
            rules.not_null |= domain.not_null;
            for check in &domain.checks {
                let condition = Form::of_domain(domain.below(), &open)
                    .read_stored(&check.expression, self.context)?;
                rules.volatile |= volatile_inside(&condition);
                rules.checks.push((check.name.clone(), condition));
            }
        }
        Ok(rules)
    }

    /// Returns the common domain, if all expressions are values of the same domain.
    pub(crate) fn common_domain(exprs: &[Expr]) -> Option<TypeOid> {
        let (first, others) = exprs.split_first()?;
        let domain = first.domain?;
        others.iter().all(|other| other.domain == Some(domain)).then_some(domain)
    }
}

fn checked(expr: Expr, rules: Arc<DomainRules>) -> Expr {
    let (ty, typmod, location) = (expr.ty, expr.typmod, expr.location);
    let domain = Some(rules.oid);
    let kind = ExprKind::Domain { argument: Box::new(expr), rules };
    Expr { typmod, domain, ..Expr::new(kind, ty, location) }
}

/// Analyzes a stored CHECK of a domain over values of the type `value`. The value is in slot 0, and
/// its name is VALUE.
///
/// Its literals are read with the default `DateStyle` and `IntervalStyle`, whatever the session's
/// settings are.
///
/// # Errors
/// As `niwaki_sql::analyze`; positions are dropped.
pub(crate) fn domain_check(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    Form::of_domain(value, &[]).read_stored(text, context)
}

/// Analyzes a condition on values of the type `value`. The search path resolves its names.
///
/// # Errors
/// As `niwaki_sql::analyze`; positions are dropped.
pub fn check_domain_expression(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
) -> Result<()> {
    stack::whole(|| Form::of_domain(value, &[]).read(text, context).map(drop))
}

/// Analyzes a CHECK of a domain over values of the type `value`; returns the text to store.
///
/// # Errors
/// As `niwaki_sql::analyze`; `0A000` if the text would mean something else in a session
/// with other settings.
pub fn define_domain_check(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    Form::of_domain(value, &[]).define(text, context)
}
