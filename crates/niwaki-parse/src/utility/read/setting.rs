//! Reads SET and RESET.

use niwaki_types::{Datum, InputContext, TextSettings};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, Node, VariableSetKind, VariableSetStmt, a_const};

use super::nodes::{elements, int_of, string_of, unexpected};
use super::type_name::column_type;
use crate::error::{Result, SqlError};
use crate::utility::statement::SetCommand;
use crate::utility::statement::TransactionModes;

pub(super) fn variable_set(s: &VariableSetStmt) -> Result<SetCommand> {
    use VariableSetKind as K;
    let name = s.name.clone();
    let local = s.is_local;
    Ok(match K::try_from(s.kind).unwrap_or(K::Undefined) {
        K::VarSetValue => {
            // SET TIME ZONE LOCAL and DEFAULT arrive as VarSetDefault.
            let values = s.args.iter().map(set_argument).collect::<Result<Vec<_>>>()?;
            let list = matches!(name.as_str(), "search_path" | "datestyle" | "temp_tablespaces");
            let value = if list {
                values
                    .iter()
                    .map(|(v, _)| niwaki_settings::settings::quote_list_item(v, &name))
                    .collect::<Vec<_>>()
                    .join(", ")
            } else {
                match values.as_slice() {
                    [(one, _)] => one.clone(),
                    _ => {
                        return Err(SqlError::new(
                            "22023",
                            format!("SET {name} takes only one argument"),
                        ));
                    }
                }
            };
            SetCommand::Value { name, value, local }
        }
        K::VarSetDefault => SetCommand::Default { name, local, reset: false },
        K::VarReset => SetCommand::Default { name, local, reset: true },
        K::VarResetAll => SetCommand::ResetAll,
        K::VarSetMulti => match name.as_str() {
            "TRANSACTION" => SetCommand::Transaction { modes: modes(&s.args)?, session: false },
            "SESSION CHARACTERISTICS" => {
                SetCommand::Transaction { modes: modes(&s.args)?, session: true }
            }
            other => return Err(SqlError::unsupported(format!("SET {other}"))),
        },
        K::VarSetCurrent => return Err(SqlError::unsupported("SET … FROM CURRENT")),
        K::Undefined => return Err(unexpected("SET")),
    })
}

/// Returns the text of a SET value, and whether it was quoted.
fn set_argument(node: &Node) -> Result<(String, bool)> {
    match node.node.as_ref() {
        Some(NodeEnum::AConst(c)) => Ok(match &c.val {
            Some(a_const::Val::Ival(v)) => (v.ival.to_string(), false),
            Some(a_const::Val::Fval(v)) => (v.fval.clone(), false),
            Some(a_const::Val::Boolval(v)) => (v.boolval.to_string(), false),
            Some(a_const::Val::Sval(v)) => (v.sval.clone(), true),
            // Zero arrives as an integer without a value.
            None if !c.isnull => ("0".to_owned(), false),
            _ => return Err(unexpected("SET")),
        }),
        Some(NodeEnum::TypeCast(cast)) => Ok((zone_of_interval(cast)?, true)),
        _ => Err(unexpected("SET")),
    }
}

/// Reads `SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE`; returns the hours east of Greenwich,
/// which name a time zone.
fn zone_of_interval(cast: &protobuf::TypeCast) -> Result<String> {
    let literal = cast.arg.as_ref().and_then(|arg| match arg.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(text.sval.as_str()),
            _ => None,
        },
        _ => None,
    });
    let (Some(text), Some(name)) = (literal, cast.type_name.as_ref()) else {
        return Err(unexpected("SET TIME ZONE INTERVAL"));
    };
    let kind = column_type(name, "")?;
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    let Datum::Interval(interval) = niwaki_types::input(kind, text, &context)? else {
        return Err(unexpected("SET TIME ZONE INTERVAL"));
    };
    let part = match (interval.months, interval.days) {
        (0, 0) => return Ok((interval.micros as f64 / 3.6e9).to_string()),
        (0, _) => "days",
        _ => "months",
    };
    let message = format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\"");
    let detail = format!("Cannot specify {part} in time zone interval.");
    Err(SqlError::new("22023", message).with_detail(detail))
}

/// Options of BEGIN and SET TRANSACTION.
pub(super) fn modes(options: &[Node]) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    for element in elements(options) {
        match element.defname.as_str() {
            "transaction_isolation" => {
                modes.repeatable_read = Some(match string_of(element).as_deref() {
                    Some("read committed" | "read uncommitted") => false,
                    Some("repeatable read") => true,
                    _ => return Err(SqlError::unsupported("isolation level SERIALIZABLE")),
                });
            }
            "transaction_read_only" => modes.read_only = Some(int_of(element) != Some(0)),
            "transaction_deferrable" => modes.deferrable = Some(int_of(element) != Some(0)),
            other => return Err(SqlError::unsupported(format!("transaction mode {other}"))),
        }
    }
    Ok(modes)
}
