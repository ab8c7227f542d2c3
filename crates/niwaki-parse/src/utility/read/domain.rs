//! Statements on domains: CREATE DOMAIN, ALTER DOMAIN.

use pg_query::NodeEnum;
use pg_query::protobuf::{AlterDomainStmt, ConstrType, Constraint, CreateDomainStmt, Node};

use super::nodes::{expression_text, qualified, strings, unexpected};
use super::table::{collation_of, named_type};
use crate::error::{Result, SqlError};
use crate::utility::statement::{DomainAction, DomainSpec, TypeStatement, Utility};

pub(super) fn create_domain(s: &CreateDomainStmt, source: &str) -> Result<Utility> {
    let type_name = s.type_name.as_ref().ok_or_else(|| unexpected("CREATE DOMAIN"))?;
    let (column_type, user_type) = named_type(type_name, source)?;
    let mut spec = DomainSpec {
        name: qualified(&strings(&s.domainname))?,
        column_type,
        user_type,
        collation: collation_of(s.coll_clause.as_deref(), source)?,
        not_null: false,
        default: None,
        checks: Vec::new(),
    };
    let mut said_null = None;
    for node in &s.constraints {
        let Some(NodeEnum::Constraint(k)) = node.node.as_ref() else { continue };
        match ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined) {
            ConstrType::ConstrDefault => {
                if spec.default.is_some() {
                    return Err(SqlError::new("42601", "multiple default expressions"));
                }
                let expression = k.raw_expr.as_deref().ok_or_else(|| unexpected("DEFAULT"))?;
                let null =
                    matches!(&expression.node, Some(NodeEnum::AConst(value)) if value.isnull);
                let text = if null { None } else { Some(expression_text(expression)?) };
                spec.default = Some(text);
            }
            kind @ (ConstrType::ConstrNotnull | ConstrType::ConstrNull) => {
                let not_null = kind == ConstrType::ConstrNotnull;
                if said_null.is_some_and(|said| said != not_null) {
                    return Err(SqlError::new("42601", "conflicting NULL/NOT NULL constraints"));
                }
                said_null = Some(not_null);
                spec.not_null = not_null;
            }
            _ => spec.checks.push(check(k)?),
        }
    }
    Ok(Utility::Type(TypeStatement::CreateDomain(Box::new(spec))))
}

/// Returns name and expression of a CHECK. A domain cannot have other constraints.
fn check(k: &Constraint) -> Result<(Option<String>, String)> {
    let refused = |what: &str| {
        Err(SqlError::new("42601", format!("{what} constraints not possible for domains")))
    };
    match ConstrType::try_from(k.contype).unwrap_or(ConstrType::Undefined) {
        ConstrType::ConstrCheck => {}
        ConstrType::ConstrPrimary => return refused("primary key"),
        ConstrType::ConstrUnique => return refused("unique"),
        ConstrType::ConstrExclusion => return refused("exclusion"),
        ConstrType::ConstrForeign => return refused("foreign key"),
        ConstrType::ConstrAttrDeferrable
        | ConstrType::ConstrAttrNotDeferrable
        | ConstrType::ConstrAttrDeferred
        | ConstrType::ConstrAttrImmediate => {
            let message = "specifying constraint deferrability not supported for domains";
            return Err(SqlError::new("0A000", message));
        }
        _ => return Err(SqlError::unsupported("this kind of constraint of a domain")),
    }
    if k.is_no_inherit {
        let message = "check constraints for domains cannot be marked NO INHERIT";
        return Err(SqlError::new("42P17", message));
    }
    let expression = k.raw_expr.as_deref().ok_or_else(|| unexpected("CHECK"))?;
    Ok(((!k.conname.is_empty()).then(|| k.conname.clone()), expression_text(expression)?))
}

pub(super) fn alter_domain(s: &AlterDomainStmt) -> Result<Utility> {
    let definition = s.def.as_deref();
    let action = match s.subtype.as_str() {
        "T" => DomainAction::Default(match definition.map(|node| &node.node) {
            None | Some(None) => None,
            Some(Some(NodeEnum::AConst(value))) if value.isnull => None,
            Some(Some(_)) => definition.map(expression_text).transpose()?,
        }),
        "N" => DomainAction::NotNull(false),
        "O" => DomainAction::NotNull(true),
        "C" => match definition.and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::Constraint(k)) => {
                let (name, expression) = check(k)?;
                DomainAction::AddCheck { name, expression, not_valid: k.skip_validation }
            }
            _ => return Err(unexpected("ALTER DOMAIN")),
        },
        // No object depends on a domain's constraint, so CASCADE has no effect.
        "X" => DomainAction::DropConstraint { name: s.name.clone(), if_exists: s.missing_ok },
        "V" => DomainAction::Validate(s.name.clone()),
        _ => return Err(unexpected("ALTER DOMAIN")),
    };
    let name = qualified(&strings(&s.type_name))?;
    Ok(Utility::Type(TypeStatement::AlterDomain { name, action }))
}

/// ALTER DOMAIN … RENAME CONSTRAINT
pub(super) fn rename_constraint(domain: &[Node], from: &str, to: &str) -> Result<Utility> {
    let name = qualified(&strings(domain))?;
    let action = DomainAction::RenameConstraint { from: from.to_owned(), to: to.to_owned() };
    Ok(Utility::Type(TypeStatement::AlterDomain { name, action }))
}
