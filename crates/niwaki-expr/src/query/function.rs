//! Functions that return rows, and the shapes of their results.

use std::sync::Arc;

use niwaki_catalog::FunctionVolatility;
use niwaki_parse::types::{ANY_ELEMENT, element_of};
use niwaki_types::{ColumnType, TypeOid};

use crate::context::RecordFields;
use crate::expr::{Expr, FieldNames, UserFunction};
use crate::function::Function;

/// The shape of a call's result for each row of the last statement.
#[derive(Clone, Debug)]
pub enum ResultShape {
    /// No value, whatever the rows are.
    Void,
    /// A single value.
    Value(ColumnType),
    /// A composite value made of all values of the row.
    Row {
        /// The type of the value.
        kind: TypeOid,
        /// The types of its fields.
        fields: Vec<ColumnType>,
        /// The names of its fields.
        names: FieldNames,
    },
}

/// A set-returning function.
#[derive(Clone, Debug)]
pub enum SetFunction {
    /// A built-in function.
    Builtin(&'static Function),
    /// A built-in function that converts JSON objects to rows.
    Records(Arc<JsonRecords>),
    /// A user's function. `fields` has the columns of its rows in FROM if there are several.
    User {
        /// The function.
        function: Arc<UserFunction>,
        /// The columns of its rows.
        fields: Option<RecordFields>,
    },
}

/// A conversion of JSON objects to rows: `jsonb_to_recordset(…) AS t (a int, b text)`.
#[derive(Debug)]
pub struct JsonRecords {
    /// The function.
    pub function: &'static Function,
    /// The columns of the rows.
    pub fields: RecordFields,
    /// The columns' values, as expressions over the JSON object in slot 0.
    pub values: Vec<Expr>,
    /// True if the query declares the columns in a column definition list.
    pub listed: bool,
}

impl SetFunction {
    /// Decides whether both are copies of one call's function.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Builtin(a), Self::Builtin(b)) => std::ptr::eq(*a, *b),
            (Self::Records(a), Self::Records(b)) => Arc::ptr_eq(a, b),
            (
                Self::User { function: a, fields: left },
                Self::User { function: b, fields: right },
            ) => a.key == b.key && left == right,
            _ => false,
        }
    }

    /// Returns the function's name, without a schema.
    pub fn name(&self) -> &str {
        match self {
            Self::Builtin(function) => function.name,
            Self::Records(records) => records.function.name,
            Self::User { function, .. } => &function.name,
        }
    }

    /// Returns the name of the function's only column in FROM, if that differs from the function's
    /// name.
    pub fn column_name(&self) -> Option<&str> {
        match self {
            Self::Builtin(function) => function.column_name(),
            Self::Records(_) => None,
            Self::User { function, .. } => function.column.as_deref(),
        }
    }

    /// Returns names and types of the result columns if the function returns rows of several
    /// columns.
    pub fn fields(&self, arguments: &[Expr]) -> Option<RecordFields> {
        match self {
            Self::Builtin(function) => fields_of_rows(function, arguments),
            Self::Records(records) => Some(Arc::clone(&records.fields)),
            Self::User { fields, .. } => fields.clone(),
        }
    }

    /// Returns the expected number of rows, if the function declares one.
    pub fn rows(&self) -> Option<f64> {
        match self {
            Self::Builtin(_) => None,
            Self::Records(records) => (!records.function.returns_set()).then_some(1.0),
            Self::User { function, .. } => Some(function.rows),
        }
    }

    /// Returns whether the function is volatile: a repeated call may return other rows.
    pub fn is_volatile(&self) -> bool {
        let volatility = match self {
            Self::Builtin(function) => function.volatility,
            Self::Records(records) => records.function.volatility,
            Self::User { function, .. } => function.volatility,
        };
        volatility == FunctionVolatility::Volatile
    }
}

/// Returns names and types of the result columns if the function returns rows of several columns.
pub fn fields_of_rows(function: &Function, arguments: &[Expr]) -> Option<RecordFields> {
    let element = arguments.first().and_then(|array| element_of(array.ty));
    let field = |&(name, ty): &(&str, TypeOid)| {
        // The type of the first argument's elements.
        let ty = if ty == ANY_ELEMENT { element.unwrap_or(TypeOid::UNKNOWN) } else { ty };
        (Arc::from(name), ColumnType::new(ty))
    };
    Some(function.columns()?.iter().map(field).collect())
}
