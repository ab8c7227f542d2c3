//! Named arguments (`make_interval(days => 10)`), for the built-in functions that are called with
//! them.

use std::sync::Arc;

use niwaki_expr::expr::Expr;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Jsonb, TypeOid};
use pg_query::protobuf::FuncCall;
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;

/// A function's parameters, in order.
struct Parameters {
    function: &'static str,
    names: &'static [&'static str],
    /// Number of parameters that a call must give. The others default to zero (or to an object
    /// without keys), or a function with fewer parameters is chosen.
    required: usize,
}

/// Returns the parameters of a `jsonpath` function.
const fn of_path(function: &'static str) -> Parameters {
    Parameters { function, names: &["target", "path", VARIABLES, "silent"], required: 2 }
}

/// Name of the parameter that defaults to an empty `jsonb` object.
const VARIABLES: &str = "vars";

const FUNCTIONS: &[Parameters] = &[
    of_path("jsonb_path_exists"),
    of_path("jsonb_path_match"),
    of_path("jsonb_path_query"),
    of_path("jsonb_path_query_array"),
    of_path("jsonb_path_query_first"),
    of_path("jsonb_path_exists_tz"),
    of_path("jsonb_path_match_tz"),
    of_path("jsonb_path_query_tz"),
    of_path("jsonb_path_query_array_tz"),
    of_path("jsonb_path_query_first_tz"),
    Parameters { function: "make_date", names: &["year", "month", "day"], required: 3 },
    Parameters {
        function: "make_timestamp",
        names: &["year", "month", "mday", "hour", "min", "sec"],
        required: 6,
    },
    Parameters {
        function: "make_timestamptz",
        names: &["year", "month", "mday", "hour", "min", "sec", "timezone"],
        required: 6,
    },
    Parameters {
        function: "make_interval",
        names: &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        required: 0,
    },
    Parameters { function: "pg_terminate_backend", names: &["pid", "timeout"], required: 1 },
];

/// Returns whether the call has a named argument.
pub(crate) fn has_names(call: &FuncCall) -> bool {
    call.args.iter().any(|node| matches!(node.node, Some(NodeEnum::NamedArgExpr(_))))
}

impl Analyzer<'_> {
    /// Returns the arguments of a call, in the order of the function's parameters.
    pub(crate) fn named_arguments(&mut self, call: &FuncCall, name: &str) -> Result<Vec<Expr>> {
        let location = call.location;
        let Some(parameters) = FUNCTIONS.iter().find(|known| known.function == name) else {
            return Err(self.unsupported("a named argument", location));
        };
        let mut given: Vec<Option<Expr>> = vec![None; parameters.names.len()];
        let mut shown = Vec::new();
        let mut unknown = false;
        let mut named = Vec::new();
        for (position, node) in call.args.iter().enumerate() {
            let (place, expr) = match &node.node {
                Some(NodeEnum::NamedArgExpr(argument)) => {
                    if named.contains(&argument.name.as_str()) {
                        let message =
                            format!("argument name \"{}\" used more than once", argument.name);
                        return Err(self.error("42601", message, argument.location));
                    }
                    named.push(argument.name.as_str());
                    let expr = self.expr_of(argument.arg.as_deref())?;
                    shown.push(format!("{} => {}", argument.name, self.format_oid(expr.ty)));
                    (parameters.names.iter().position(|known| *known == argument.name), expr)
                }
                _ if !named.is_empty() => {
                    return Err(self.error(
                        "42601",
                        "positional argument cannot follow named argument",
                        location_of(node).unwrap_or(location),
                    ));
                }
                _ => {
                    let expr = self.expr(node)?;
                    shown.push(self.format_oid(expr.ty));
                    (Some(position), expr)
                }
            };
            match place.and_then(|place| given.get_mut(place)) {
                Some(place) if place.is_none() => *place = Some(expr),
                _ => unknown = true,
            }
        }
        let missing = given.iter().take(parameters.required).any(Option::is_none);
        if unknown || missing {
            return Err(self.no_such_call(name, &shown, location));
        }
        // Optional arguments are dropped at the end, and become zero in between.
        let count = if parameters.required == 0 {
            given.len()
        } else {
            given.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
        };
        given.truncate(count);
        let last = parameters.names.len() - 1;
        let zero = |position: usize| -> Result<Expr> {
            Ok(if parameters.names.get(position) == Some(&VARIABLES) {
                let empty = Datum::Jsonb(Arc::new(Jsonb::object(Vec::new())?));
                Expr::constant(empty, TypeOid::JSONB, -1)
            } else if position == last {
                Expr::constant(Datum::Float8(0.0), TypeOid::FLOAT8, -1)
            } else {
                Expr::constant(Datum::Int4(0), TypeOid::INT4, -1)
            })
        };
        let arguments = given.into_iter().enumerate();
        arguments.map(|(position, expr)| expr.map_or_else(|| zero(position), Ok)).collect()
    }

    fn no_such_call(&self, name: &str, arguments: &[String], location: i32) -> SqlError {
        let message = format!("function {name}({}) does not exist", arguments.join(", "));
        self.error("42883", message, location).with_hint(
            "No function matches the given name and argument types. \
             You might need to add explicit type casts.",
        )
    }
}

/// Returns the location of a constant in the statement.
fn location_of(node: &Node) -> Option<i32> {
    match &node.node {
        Some(NodeEnum::AConst(constant)) => Some(constant.location),
        _ => None,
    }
}
