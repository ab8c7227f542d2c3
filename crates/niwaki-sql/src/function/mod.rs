//! A function or operator: its signature and its implementation.

mod kinds;

use std::fmt;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::context::{ExecContext, RecordFields};

pub(crate) use kinds::{AggregateKind, OrderedSet, Regression, WindowFunction};

/// The stability of a function's results, which decides when evaluation ahead of time is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Volatility {
    /// The same arguments always give the same result.
    Immutable,
    /// The same arguments give the same result during one statement.
    Stable,
    /// Every call may give another result.
    Volatile,
}

/// The implementation of a function.
pub(crate) enum Eval {
    /// One argument, which is not NULL.
    Unary(fn(&Datum) -> Result<Datum>),
    /// Two arguments, which are not NULL.
    Binary(fn(&Datum, &Datum) -> Result<Datum>),
    /// Any number of arguments.
    Pure(fn(&[Datum]) -> Result<Datum>),
    /// Takes the session.
    Context(fn(&mut ExecContext<'_>, &[Datum]) -> Result<Datum>),
    /// Takes the session and the types of the arguments, which the values alone do not show.
    Typed(fn(&mut ExecContext<'_>, &[TypeOid], &[Datum]) -> Result<Datum>),
    /// Returns a set of rows; the executor calls it.
    Set(fn(&mut ExecContext<'_>, &[Datum]) -> Result<Vec<Datum>>),
    /// Returns a set of rows of several columns; allowed in FROM only.
    Rows(&'static RowsFunction),
    /// Returns rows of JSON objects, with columns that the query names; allowed in FROM only.
    Objects(ObjectsFunction),
    /// Computes one value from many rows, in the executor.
    Aggregate(AggregateKind),
    /// Computes one value from the rows around the current one, in the executor.
    Window(WindowFunction),
}

/// A function that turns JSON objects into rows.
#[derive(Clone, Copy)]
pub(crate) struct ObjectsFunction {
    /// The objects that the last argument holds.
    pub(crate) objects: Objects,
    /// Emits the fields of each object.
    pub(crate) body: FieldsOfObjects,
}

/// Calls the last argument with the fields of each JSON object, in the order of the columns. A
/// field is `None` where the object has no such key.
pub(crate) type FieldsOfObjects = fn(
    &Function,
    &Datum,
    &RecordFields,
    &ExecContext<'_>,
    &mut dyn FnMut(Vec<Option<Datum>>),
) -> Result<()>;

/// The objects that an argument holds, one for each result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// The argument is one object.
    One,
    /// The argument is an array of objects.
    Each,
}

/// A callback that takes one row, with one value for each column.
pub(crate) type EmitRow<'e> = &'e mut dyn FnMut(Vec<Datum>) -> Result<()>;

/// A function that is used as a table of several columns.
pub(crate) struct RowsFunction {
    /// Names and types of the columns.
    pub(crate) columns: &'static [(&'static str, TypeOid)],
    /// Emits the rows in their order.
    pub(crate) body: fn(&mut ExecContext<'_>, &[Datum], EmitRow<'_>) -> Result<()>,
}

/// A function or operator with one signature.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [TypeOid],
    pub(crate) result: TypeOid,
    /// True if the last argument may be repeated.
    pub(crate) variadic: bool,
    /// True if a NULL argument makes the result NULL.
    pub(crate) strict: bool,
    pub(crate) volatility: Volatility,
    pub(crate) eval: Eval,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.arguments.len())
    }
}

impl Function {
    pub(crate) fn returns_set(&self) -> bool {
        matches!(
            self.eval,
            Eval::Set(_)
                | Eval::Rows(_)
                | Eval::Objects(ObjectsFunction { objects: Objects::Each, .. })
        )
    }

    /// Returns the function's schema.
    pub(crate) fn schema(&self) -> &'static str {
        if self.name == "_pg_expandarray" { "information_schema" } else { "pg_catalog" }
    }

    /// Returns the function's name in SQL text, with its schema where the name alone is not found.
    pub(crate) fn sql_name(&self) -> String {
        let name = quote_identifier(self.name);
        match self.schema() {
            "pg_catalog" => name,
            schema => format!("{schema}.{name}"),
        }
    }

    /// Returns the name of the function's one column in FROM, if different from the function's
    /// name.
    pub(crate) fn column_name(&self) -> Option<&'static str> {
        match self.name {
            "json_array_elements"
            | "jsonb_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements_text" => Some("value"),
            "pg_partition_ancestors" => Some("relid"),
            _ => None,
        }
    }

    /// Decides whether the function returns an array whose type depends on the arguments.
    pub(crate) fn returns_any_array(&self) -> bool {
        self.result == T::ARRAY || self.result == T::COMPATIBLES
    }

    /// Returns the names and types of the columns, if there are several.
    pub(crate) fn columns(&self) -> Option<&'static [(&'static str, TypeOid)]> {
        match &self.eval {
            Eval::Rows(rows) => Some(rows.columns),
            _ => None,
        }
    }
}

/// Short names for the types in signatures.
pub(crate) struct T;

impl T {
    pub(crate) const BOOL: TypeOid = TypeOid::BOOL;
    pub(crate) const BYTEA: TypeOid = TypeOid::BYTEA;
    pub(crate) const CHAR: TypeOid = TypeOid::CHAR;
    pub(crate) const NAME: TypeOid = TypeOid::NAME;
    pub(crate) const INT8: TypeOid = TypeOid::INT8;
    pub(crate) const INT2: TypeOid = TypeOid::INT2;
    pub(crate) const INT4: TypeOid = TypeOid::INT4;
    pub(crate) const TEXT: TypeOid = TypeOid::TEXT;
    pub(crate) const OID: TypeOid = TypeOid::OID;
    pub(crate) const TID: TypeOid = TypeOid::TID;
    pub(crate) const XID: TypeOid = TypeOid::XID;
    pub(crate) const FLOAT4: TypeOid = TypeOid::FLOAT4;
    pub(crate) const FLOAT8: TypeOid = TypeOid::FLOAT8;
    pub(crate) const BPCHAR: TypeOid = TypeOid::BPCHAR;
    pub(crate) const DATE: TypeOid = TypeOid::DATE;
    pub(crate) const TIMESTAMP: TypeOid = TypeOid::TIMESTAMP;
    pub(crate) const TIMESTAMPTZ: TypeOid = TypeOid::TIMESTAMPTZ;
    pub(crate) const INTERVAL: TypeOid = TypeOid::INTERVAL;
    pub(crate) const NUMERIC: TypeOid = TypeOid::NUMERIC;
    pub(crate) const TIME: TypeOid = TypeOid::TIME;
    pub(crate) const TIMETZ: TypeOid = TypeOid::TIMETZ;
    pub(crate) const UUID: TypeOid = TypeOid::UUID;
    pub(crate) const LSN: TypeOid = TypeOid::PG_LSN;
    pub(crate) const REGCLASS: TypeOid = TypeOid::REGCLASS;
    pub(crate) const REGPROC: TypeOid = TypeOid::REGPROC;
    pub(crate) const REGPROCEDURE: TypeOid = TypeOid::REGPROCEDURE;
    pub(crate) const REGOPER: TypeOid = TypeOid::REGOPER;
    pub(crate) const REGOPERATOR: TypeOid = TypeOid::REGOPERATOR;
    pub(crate) const REGTYPE: TypeOid = TypeOid::REGTYPE;
    pub(crate) const REGROLE: TypeOid = TypeOid::REGROLE;
    pub(crate) const REGNAMESPACE: TypeOid = TypeOid::REGNAMESPACE;
    pub(crate) const REGCOLLATION: TypeOid = TypeOid::REGCOLLATION;
    pub(crate) const NODE_TREE: TypeOid = TypeOid::PG_NODE_TREE;
    pub(crate) const ACL: TypeOid = TypeOid::ACLITEM_ARRAY;
    pub(crate) const ACL_ITEM: TypeOid = TypeOid::ACLITEM;
    pub(crate) const JSON: TypeOid = TypeOid::JSON;
    pub(crate) const JSONB: TypeOid = TypeOid::JSONB;
    pub(crate) const JSONPATH: TypeOid = TypeOid::JSONPATH;
    pub(crate) const VOID: TypeOid = TypeOid::VOID;
    pub(crate) const RECORD: TypeOid = niwaki_parse::types::RECORD;
    pub(crate) const NAMES: TypeOid = TypeOid::NAME_ARRAY;
    pub(crate) const TEXTS: TypeOid = TypeOid::TEXT_ARRAY;
    pub(crate) const INTS: TypeOid = TypeOid::INT4_ARRAY;
    pub(crate) const FLOATS: TypeOid = TypeOid::FLOAT8_ARRAY;
    pub(crate) const INTERVALS: TypeOid = TypeOid::INTERVAL_ARRAY;
    pub(crate) const ANY: TypeOid = niwaki_parse::types::ANY;
    pub(crate) const ELEMENT: TypeOid = niwaki_parse::types::ANY_ELEMENT;
    pub(crate) const ARRAY: TypeOid = niwaki_parse::types::ANY_ARRAY;
    pub(crate) const ENUM: TypeOid = niwaki_parse::types::ANY_ENUM;
    pub(crate) const NONARRAY: TypeOid = niwaki_parse::types::ANY_NONARRAY;
    pub(crate) const COMPATIBLE: TypeOid = niwaki_parse::types::ANY_COMPATIBLE;
    pub(crate) const COMPATIBLES: TypeOid = niwaki_parse::types::ANY_COMPATIBLE_ARRAY;
}

#[cold]
pub(crate) fn wrong_types(operator: &str) -> SqlError {
    SqlError::internal(format!("operator {operator} was given values of other types"))
}
