//! Values of domains: which expressions must be checked, and against what.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_types::{ColumnType, TypeOid};
use pg_query::NodeEnum;

use super::scope::{ItemColumn, Place, Scope};
use super::{Analyzer, with_stored_styles};
use crate::context::AnalyzeContext;
use crate::error::{Result, SqlError};
use crate::expr::{DomainRules, Expr, ExprKind};
use crate::query::volatile_inside;

impl Analyzer<'_> {
    /// Makes an expression of the right base type one of a domain, which checks its values; or one of no domain.
    pub(super) fn as_domain(&mut self, expr: Expr, domain: Option<TypeOid>) -> Result<Expr> {
        let Some(oid) = domain else { return Ok(Expr { domain: None, ..expr }) };
        if let Some(rules) = self.domains.get(&oid) {
            return Ok(checked(expr, Arc::clone(rules)));
        }
        let rules = Arc::new(self.domain_rules(oid)?);
        self.domains.insert(oid, Arc::clone(&rules));
        Ok(checked(expr, rules))
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
                let condition =
                    domain_condition(&check.expression, domain.below(), self.context, &open)?;
                rules.volatile |= volatile_inside(&condition);
                rules.checks.push((check.name.clone(), condition));
            }
        }
        Ok(rules)
    }

    /// The domain of all these, if they are values of the same one.
    pub(super) fn common_domain(exprs: &[Expr]) -> Option<TypeOid> {
        let (first, others) = exprs.split_first()?;
        let domain = first.domain?;
        others.iter().all(|other| other.domain == Some(domain)).then_some(domain)
    }
}

fn checked(expr: Expr, rules: Arc<DomainRules>) -> Expr {
    let (ty, typmod, location) = (expr.ty, expr.typmod, expr.location);
    let domain = Some(rules.oid);
    let kind = ExprKind::Domain { argument: Box::new(expr), rules };
    Expr { kind, ty, typmod, domain, location }
}

/// Analyzes a CHECK of a domain over values of the type `value`, which stand in slot 0 and are called VALUE.
///
/// Its literals are read as with the default `DateStyle` and `IntervalStyle`, whatever the session's are.
///
/// # Errors
/// As [`analyze`](super::analyze); positions are dropped.
pub(crate) fn domain_check(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    domain_condition(text, value, context, &[])
}

/// Refuses a CHECK of a domain that would mean something else in a session with other settings, as it is stored as text;
/// and whatever `domain_check` refuses.
///
/// # Errors
/// `0A000`; those of `domain_check`.
pub fn check_domain_expression(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
) -> Result<()> {
    let given = given_condition(text, value, context, &[])?;
    if super::has_default_styles(context.text) {
        return Ok(());
    }
    match domain_check(text, value, context) {
        Ok(stored) if stored.same(&given) => Ok(()),
        _ => Err(super::depends_on_styles()),
    }
}

/// Refuses a DEFAULT of a domain (`target`: what it is made of, and its name), as [`check_domain_expression`] does a CHECK.
///
/// # Errors
/// As [`analyze`](super::analyze); positions are dropped.
pub fn check_domain_default(
    text: &str,
    target: (ColumnType, &str),
    context: &AnalyzeContext<'_>,
) -> Result<()> {
    let stored = super::table_expression(text, None, context, Some(target));
    let given = super::given_expression(text, None, context, Some(target));
    let checked = match (stored, given) {
        (Ok(stored), Ok(given)) if stored.same(&given) => Ok(()),
        (_, Ok(_)) if super::has_default_styles(context.text) => Ok(()),
        (_, Ok(_)) => Err(super::depends_on_styles()),
        (_, Err(error)) => Err(error),
    };
    checked.map_err(|mut error| {
        error.position = None;
        error
    })
}

/// [`domain_check`] inside of the constraints of the domains `open`.
fn domain_condition(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
    open: &[TypeOid],
) -> Result<Expr> {
    with_stored_styles(context, |context| given_condition(text, value, context, open))
}

fn given_condition(
    text: &str,
    value: ColumnType,
    context: &AnalyzeContext<'_>,
    open: &[TypeOid],
) -> Result<Expr> {
    let query = format!("SELECT {text}");
    let statements = crate::parse::parse(&query)?;
    let mut analyzer = Analyzer::new(context, &query, Vec::new());
    analyzer.open_domains = open.to_vec();
    let Some(NodeEnum::SelectStmt(select)) = statements.first().map(|s| &*s.node) else {
        return Err(SqlError::internal("a check of a domain is no expression"));
    };
    let Some(NodeEnum::ResTarget(target)) =
        select.target_list.first().and_then(|node| node.node.as_ref())
    else {
        return Err(SqlError::internal("a check of a domain is empty"));
    };
    let mut scope = Scope { place: Place::Check, ..Scope::default() };
    scope.add_value(ItemColumn {
        name: "value".to_owned(),
        expr: Expr::slot(0, value),
        origin: (0, 0),
        bare: true,
        hidden: false,
        fields: None,
    });
    analyzer.scopes.push(scope);
    let condition = analyzer.expr_of(target.val.as_deref());
    condition.and_then(|condition| analyzer.to_bool(condition, "CHECK")).map_err(|mut error| {
        error.position = None;
        error
    })
}
