//! Bodies of users' functions, ready to be run.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{ColumnType, TypeOid};

use super::{PlanNode, fields_of_rows};
use crate::context::{CommandTag, RecordFields};
use crate::expr::{Expr, FieldNames, FunctionKey, UserFunction};
use crate::functions::{Function, Volatility};

/// The bodies of the functions that a statement calls, and does not have in the place of the calls.
pub(crate) type FunctionBodies = HashMap<FunctionKey, Arc<FunctionBody>>;

/// The statements that a function is.
#[derive(Debug)]
pub(crate) struct FunctionBody {
    /// The function's name, for contexts of errors.
    pub(crate) name: String,
    pub(crate) statements: Vec<BodyStatement>,
    /// It sees what its caller sees, and changes nothing (STABLE, IMMUTABLE).
    pub(crate) read_only: bool,
    /// It gives any number of rows.
    pub(crate) returns_set: bool,
    pub(crate) shape: ResultShape,
    /// The result's values, over the rows of the last statement.
    pub(crate) result: Vec<Expr>,
    /// The one value is the composite value that is to be returned.
    pub(crate) whole: bool,
}

/// One statement of a body.
#[derive(Debug)]
pub(crate) struct BodyStatement {
    pub(crate) root: Arc<PlanNode>,
    pub(crate) tag: CommandTag,
    /// Columns of its rows.
    pub(crate) width: usize,
    /// It changes data, or locks rows.
    pub(crate) writes: bool,
    /// It changes data.
    pub(crate) changes: bool,
}

/// What a call gives for a row of the last statement.
#[derive(Clone, Debug)]
pub(crate) enum ResultShape {
    /// Nothing, whatever there is.
    Void,
    /// The one value.
    Value(ColumnType),
    /// A composite value made of all values.
    Row { kind: TypeOid, fields: Vec<ColumnType>, names: FieldNames },
}

/// A function that gives a set of rows.
#[derive(Clone, Debug)]
pub(crate) enum SetFunction {
    /// One of PostgreSQL's.
    Builtin(&'static Function),
    /// One of PostgreSQL's that makes rows of JSON objects.
    Records(Arc<JsonRecords>),
    /// A user's, with the columns that its rows have in FROM, if they have several.
    User { function: Arc<UserFunction>, fields: Option<RecordFields> },
}

/// Rows made of JSON objects: `jsonb_to_recordset(…) AS t (a int, b text)`.
#[derive(Debug)]
pub(crate) struct JsonRecords {
    pub(crate) function: &'static Function,
    /// The columns.
    pub(crate) fields: RecordFields,
    /// Their values, of what stands in the object, which is in slot 0.
    pub(crate) values: Vec<Expr>,
    /// The query has the columns in a list.
    pub(crate) listed: bool,
}

impl SetFunction {
    /// Its name, without a schema.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Builtin(function) => function.name,
            Self::Records(records) => records.function.name,
            Self::User { function, .. } => &function.name,
        }
    }

    /// What its one column is called in FROM, if that is not the function's name.
    pub(crate) fn column_name(&self) -> Option<&str> {
        match self {
            Self::Builtin(function) => function.column_name(),
            Self::Records(_) => None,
            Self::User { function, .. } => function.column.as_deref(),
        }
    }

    /// Names and types of what each of its rows has, if it gives rows of several columns.
    pub(crate) fn fields(&self, arguments: &[Expr]) -> Option<RecordFields> {
        match self {
            Self::Builtin(function) => fields_of_rows(function, arguments),
            Self::Records(records) => Some(Arc::clone(&records.fields)),
            Self::User { fields, .. } => fields.clone(),
        }
    }

    /// How many rows it gives, as far as it says so.
    pub(crate) fn rows(&self) -> Option<f64> {
        match self {
            Self::Builtin(_) => None,
            Self::Records(records) => (!records.function.returns_set()).then_some(1.0),
            Self::User { function, .. } => Some(function.rows),
        }
    }

    /// Whether it may give other rows each time.
    pub(crate) fn is_volatile(&self) -> bool {
        let volatility = match self {
            Self::Builtin(function) => function.volatility,
            Self::Records(records) => records.function.volatility,
            Self::User { function, .. } => function.volatility,
        };
        volatility == Volatility::Volatile
    }
}
