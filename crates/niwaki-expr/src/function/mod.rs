//! A function or operator: its signature and its implementation.

mod kinds;

use std::fmt;

use niwaki_catalog::FunctionVolatility;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::context::{ExecContext, RecordFields};

pub use kinds::{AggregateKind, OrderedSet, Regression, WindowFunction};

/// The implementation of a function.
pub enum Eval {
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
pub struct ObjectsFunction {
    /// The objects that the last argument holds.
    pub objects: Objects,
    /// Emits the fields of each object.
    pub body: FieldsOfObjects,
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
pub enum Objects {
    /// The argument is one object.
    One,
    /// The argument is an array of objects.
    Each,
}

/// A callback that takes one row, with one value for each column.
pub type EmitRow<'e> = &'e mut dyn FnMut(Vec<Datum>) -> Result<()>;

/// A function that is used as a table of several columns.
pub struct RowsFunction {
    /// Names and types of the columns.
    pub columns: &'static [(&'static str, TypeOid)],
    /// Emits the rows in their order.
    pub body: fn(&mut ExecContext<'_>, &[Datum], EmitRow<'_>) -> Result<()>,
}

/// A function or operator with one signature.
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// The types of the arguments.
    pub arguments: &'static [TypeOid],
    /// The type of the result.
    pub result: TypeOid,
    /// True if the last argument may be repeated.
    pub variadic: bool,
    /// True if a NULL argument makes the result NULL.
    pub strict: bool,
    /// The stability of the results.
    pub volatility: FunctionVolatility,
    /// The implementation.
    pub eval: Eval,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.arguments.len())
    }
}

impl Function {
    /// Decides whether the function returns a set of rows.
    pub fn returns_set(&self) -> bool {
        matches!(
            self.eval,
            Eval::Set(_)
                | Eval::Rows(_)
                | Eval::Objects(ObjectsFunction { objects: Objects::Each, .. })
        )
    }

    /// Returns the function's schema.
    pub fn schema(&self) -> &'static str {
        if self.name == "_pg_expandarray" { "information_schema" } else { "pg_catalog" }
    }

    /// Returns the function's name in SQL text, with its schema where the name alone is not found.
    pub fn sql_name(&self) -> String {
        let name = quote_identifier(self.name);
        match self.schema() {
            "pg_catalog" => name,
            schema => format!("{schema}.{name}"),
        }
    }

    /// Returns the name of the function's one column in FROM, if different from the function's
    /// name.
    pub fn column_name(&self) -> Option<&'static str> {
        match self.name {
            "json_array_elements"
            | "jsonb_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements_text" => Some("value"),
            "pg_partition_ancestors" => Some("relid"),
            "niwaki_visibility_map_memory" => Some("bytes"),
            _ => None,
        }
    }

    /// Decides whether the function returns an array whose type depends on the arguments.
    pub(crate) fn returns_any_array(&self) -> bool {
        self.result == T::ARRAY || self.result == T::COMPATIBLES
    }

    /// Returns the names and types of the columns, if there are several.
    pub fn columns(&self) -> Option<&'static [(&'static str, TypeOid)]> {
        match &self.eval {
            Eval::Rows(rows) => Some(rows.columns),
            _ => None,
        }
    }
}

/// Short names for the types in signatures.
pub struct T;

impl T {
    /// `bool`
    pub const BOOL: TypeOid = TypeOid::BOOL;
    /// `bytea`
    pub const BYTEA: TypeOid = TypeOid::BYTEA;
    /// `char`
    pub const CHAR: TypeOid = TypeOid::CHAR;
    /// `name`
    pub const NAME: TypeOid = TypeOid::NAME;
    /// `int8`
    pub const INT8: TypeOid = TypeOid::INT8;
    /// `int2`
    pub const INT2: TypeOid = TypeOid::INT2;
    /// `int4`
    pub const INT4: TypeOid = TypeOid::INT4;
    /// `text`
    pub const TEXT: TypeOid = TypeOid::TEXT;
    /// `oid`
    pub const OID: TypeOid = TypeOid::OID;
    /// `tid`
    pub const TID: TypeOid = TypeOid::TID;
    /// `xid`
    pub const XID: TypeOid = TypeOid::XID;
    /// `float4`
    pub const FLOAT4: TypeOid = TypeOid::FLOAT4;
    /// `float8`
    pub const FLOAT8: TypeOid = TypeOid::FLOAT8;
    /// `bpchar`
    pub const BPCHAR: TypeOid = TypeOid::BPCHAR;
    /// `date`
    pub const DATE: TypeOid = TypeOid::DATE;
    /// `timestamp`
    pub const TIMESTAMP: TypeOid = TypeOid::TIMESTAMP;
    /// `timestamptz`
    pub const TIMESTAMPTZ: TypeOid = TypeOid::TIMESTAMPTZ;
    /// `interval`
    pub const INTERVAL: TypeOid = TypeOid::INTERVAL;
    /// `numeric`
    pub const NUMERIC: TypeOid = TypeOid::NUMERIC;
    /// `time`
    pub const TIME: TypeOid = TypeOid::TIME;
    /// `timetz`
    pub const TIMETZ: TypeOid = TypeOid::TIMETZ;
    /// `uuid`
    pub const UUID: TypeOid = TypeOid::UUID;
    /// `lsn`
    pub const LSN: TypeOid = TypeOid::PG_LSN;
    /// `regclass`
    pub const REGCLASS: TypeOid = TypeOid::REGCLASS;
    /// `regproc`
    pub const REGPROC: TypeOid = TypeOid::REGPROC;
    /// `regprocedure`
    pub const REGPROCEDURE: TypeOid = TypeOid::REGPROCEDURE;
    /// `regoper`
    pub const REGOPER: TypeOid = TypeOid::REGOPER;
    /// `regoperator`
    pub const REGOPERATOR: TypeOid = TypeOid::REGOPERATOR;
    /// `regtype`
    pub const REGTYPE: TypeOid = TypeOid::REGTYPE;
    /// `regrole`
    pub const REGROLE: TypeOid = TypeOid::REGROLE;
    /// `regnamespace`
    pub const REGNAMESPACE: TypeOid = TypeOid::REGNAMESPACE;
    /// `regcollation`
    pub const REGCOLLATION: TypeOid = TypeOid::REGCOLLATION;
    /// `node_tree`
    pub const NODE_TREE: TypeOid = TypeOid::PG_NODE_TREE;
    /// `acl`
    pub const ACL: TypeOid = TypeOid::ACLITEM_ARRAY;
    /// `acl_item`
    pub const ACL_ITEM: TypeOid = TypeOid::ACLITEM;
    /// `json`
    pub const JSON: TypeOid = TypeOid::JSON;
    /// `jsonb`
    pub const JSONB: TypeOid = TypeOid::JSONB;
    /// `jsonpath`
    pub const JSONPATH: TypeOid = TypeOid::JSONPATH;
    /// `void`
    pub const VOID: TypeOid = TypeOid::VOID;
    /// `record`
    pub const RECORD: TypeOid = niwaki_parse::types::RECORD;
    /// `names`
    pub const NAMES: TypeOid = TypeOid::NAME_ARRAY;
    /// `texts`
    pub const TEXTS: TypeOid = TypeOid::TEXT_ARRAY;
    /// `ints`
    pub const INTS: TypeOid = TypeOid::INT4_ARRAY;
    /// `floats`
    pub const FLOATS: TypeOid = TypeOid::FLOAT8_ARRAY;
    /// `intervals`
    pub const INTERVALS: TypeOid = TypeOid::INTERVAL_ARRAY;
    /// `any`
    pub const ANY: TypeOid = niwaki_parse::types::ANY;
    /// `element`
    pub const ELEMENT: TypeOid = niwaki_parse::types::ANY_ELEMENT;
    /// `array`
    pub const ARRAY: TypeOid = niwaki_parse::types::ANY_ARRAY;
    /// `enum`
    pub const ENUM: TypeOid = niwaki_parse::types::ANY_ENUM;
    /// `nonarray`
    pub const NONARRAY: TypeOid = niwaki_parse::types::ANY_NONARRAY;
    /// `compatible`
    pub const COMPATIBLE: TypeOid = niwaki_parse::types::ANY_COMPATIBLE;
    /// `compatibles`
    pub const COMPATIBLES: TypeOid = niwaki_parse::types::ANY_COMPATIBLE_ARRAY;
}

#[cold]
/// Returns the error for values whose types the analysis should have refused.
pub fn wrong_types(operator: &str) -> SqlError {
    SqlError::internal(format!("operator {operator} was given values of other types"))
}
