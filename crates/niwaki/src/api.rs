//! Programs' interface: statements with Rust values in, rows with Rust values out.

use std::ops::{Deref, DerefMut, Index};
use std::sync::Arc;

use niwaki_session::{ResultSink, Statement};
use niwaki_sql::{ColumnInfo, RowSink, SqlError};
use niwaki_types::{ColumnType, Datum, InputContext, TextSettings, TypeOid};

use crate::Result;
use crate::session::Session;

/// A Rust value that can be a parameter.
pub trait ToValue {
    /// Converts to a value of SQL type `type_oid`.
    ///
    /// # Errors
    /// 22003 when it is out of range, 42804 when the types do not fit, 22P02 for text that the type
    /// cannot read.
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum>;
}

/// A Rust value that can be read from a column.
pub trait FromValue: Sized {
    /// Reads a value of SQL type `type_oid`.
    ///
    /// # Errors
    /// 22002 for NULL where no `Option` is asked for, 42804 when the types do not fit.
    fn from_value(value: &Datum, type_oid: TypeOid, settings: &TextSettings) -> Result<Self>;
}

/// Parameters of a statement: `()`, tuples of up to eight values, or a slice of values.
pub trait Params {
    /// Returns the number of parameters.
    fn count(&self) -> usize;
    /// Returns parameter number `position`, counted from 0.
    ///
    /// # Errors
    /// As [`ToValue::to_value`].
    fn value(&self, position: usize, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum>;
}

/// A runnable query: SQL text, or a statement that [`Session::prepare`] made.
pub trait Query {
    /// Returns the prepared statement, or the SQL text.
    fn source(&self) -> QuerySource<'_>;
}

/// Source of a [`Query`].
#[derive(Clone, Copy, Debug)]
pub enum QuerySource<'q> {
    /// SQL text.
    Text(&'q str),
    /// A prepared statement.
    Prepared(&'q PreparedQuery),
}

impl Query for &str {
    fn source(&self) -> QuerySource<'_> {
        QuerySource::Text(self)
    }
}

impl Query for &String {
    fn source(&self) -> QuerySource<'_> {
        QuerySource::Text(self)
    }
}

impl Query for &PreparedQuery {
    fn source(&self) -> QuerySource<'_> {
        QuerySource::Prepared(self)
    }
}

/// A statement that was analyzed and planned once; see [`Session::prepare`].
#[derive(Clone)]
pub struct PreparedQuery {
    statement: Arc<Statement>,
}

impl std::fmt::Debug for PreparedQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedQuery").field("described", self.statement.described()).finish()
    }
}

impl PreparedQuery {
    /// Returns the types of the parameters `$1`, `$2`, ….
    pub fn parameters(&self) -> &[TypeOid] {
        &self.statement.described().parameters
    }

    /// Returns the columns of the result; none when the statement gives no rows.
    pub fn columns(&self) -> &[ColumnInfo] {
        self.statement.described().columns.as_deref().unwrap_or_default()
    }
}

/// All rows of a query.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Arc<[ColumnInfo]>,
    rows: Vec<Row>,
}

impl Rows {
    /// Returns the columns of the rows.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Decides whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Iterates over the rows in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Row> {
        self.rows.iter()
    }
}

impl IntoIterator for Rows {
    type Item = Row;
    type IntoIter = std::vec::IntoIter<Row>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'r> IntoIterator for &'r Rows {
    type Item = &'r Row;
    type IntoIter = std::slice::Iter<'r, Row>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    columns: Arc<[ColumnInfo]>,
    values: Vec<Datum>,
    settings: Arc<TextSettings>,
}

impl Row {
    /// Returns the value of a column, by its position from 0.
    ///
    /// # Errors
    /// 42703 past the last column; the errors of [`FromValue::from_value`].
    pub fn get<T: FromValue>(&self, position: usize) -> Result<T> {
        let value = self.values.get(position).ok_or_else(|| {
            SqlError::new(
                "42703",
                format!("a row of {} columns has no column {position}", self.values.len()),
            )
        })?;
        let type_oid = self.columns.get(position).map_or(TypeOid::TEXT, ColumnInfo::oid);
        T::from_value(value, type_oid, &self.settings)
    }

    /// Returns the value of a column, by its name.
    ///
    /// # Errors
    /// 42703 when no column has this name; the errors of [`FromValue::from_value`].
    pub fn get_by_name<T: FromValue>(&self, name: &str) -> Result<T> {
        let position =
            self.columns.iter().position(|c| c.name == name).ok_or_else(|| {
                SqlError::new("42703", format!("column \"{name}\" does not exist"))
            })?;
        self.get(position)
    }

    /// Returns the values of all columns.
    pub fn values(&self) -> &[Datum] {
        &self.values
    }
}

impl Index<usize> for Row {
    type Output = Datum;
    fn index(&self, position: usize) -> &Datum {
        &self.values[position]
    }
}

macro_rules! row_into_tuple {
    ($($name:ident $position:tt),+) => {
        impl<$($name: FromValue),+> TryFrom<Row> for ($($name,)+) {
            type Error = SqlError;
            fn try_from(row: Row) -> Result<Self> {
                Ok(($(row.get::<$name>($position)?,)+))
            }
        }
    };
}
row_into_tuple!(A 0);
row_into_tuple!(A 0, B 1);
row_into_tuple!(A 0, B 1, C 2);
row_into_tuple!(A 0, B 1, C 2, D 3);
row_into_tuple!(A 0, B 1, C 2, D 3, E 4);
row_into_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);

/// A transaction. Its statements commit together, or are undone when the transaction is dropped.
#[derive(Debug)]
pub struct Transaction<'s> {
    session: &'s mut Session,
    open: bool,
}

impl Transaction<'_> {
    /// Commits.
    ///
    /// # Errors
    /// A statement of the transaction failed (25P02); the commit's own errors.
    pub fn commit(mut self) -> Result<()> {
        self.open = false;
        if self.session.transaction_status() == b'E' {
            self.session.execute("rollback", ())?;
            return Err(SqlError::new(
                "25P02",
                "the transaction was rolled back, because a statement of it failed",
            ));
        }
        self.session.execute("commit", ()).map(|_| ())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// None in practice.
    pub fn rollback(mut self) -> Result<()> {
        self.open = false;
        self.session.execute("rollback", ()).map(|_| ())
    }
}

impl Deref for Transaction<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = self.session.execute("rollback", ());
        }
    }
}

impl Session {
    /// Runs a statement and returns how many rows the statement concerned. Without parameters the
    /// text may hold several statements, which are one transaction. The number is then the last
    /// statement's.
    ///
    /// # Errors
    /// The errors of the statement.
    pub fn execute(&mut self, query: impl Query, params: impl Params) -> Result<u64> {
        let mut sink = Collector::default();
        self.run_query_source(query.source(), &params, &mut sink)?;
        Ok(sink.count)
    }

    /// Runs a query and returns its rows.
    ///
    /// # Errors
    /// The errors of the statement.
    pub fn query(&mut self, query: impl Query, params: impl Params) -> Result<Rows> {
        let mut sink = Collector { keep: true, ..Collector::default() };
        self.run_query_source(query.source(), &params, &mut sink)?;
        let columns: Arc<[ColumnInfo]> = sink.columns.into();
        let settings = Arc::new(self.text_settings().clone());
        let rows = sink
            .rows
            .into_iter()
            .map(|values| Row {
                columns: Arc::clone(&columns),
                values,
                settings: Arc::clone(&settings),
            })
            .collect();
        Ok(Rows { columns, rows })
    }

    /// Runs a query that must give exactly one row.
    ///
    /// # Errors
    /// The errors of the statement; 02000 when there is no row, 21000 when there are several.
    pub fn query_one(&mut self, query: impl Query, params: impl Params) -> Result<Row> {
        let mut rows = self.query(query, params)?.into_iter();
        let row = rows.next().ok_or_else(|| SqlError::new("02000", "the query gave no row"))?;
        if rows.next().is_some() {
            return Err(SqlError::new("21000", "the query gave more than one row"));
        }
        Ok(row)
    }

    /// Analyzes and plans a statement once, so that it can run many times.
    ///
    /// # Errors
    /// Syntax errors and errors of the analysis.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedQuery> {
        let prepared = self.inner.prepare_text(sql);
        match prepared {
            Ok(statement) => {
                self.inner.end_message()?;
                Ok(PreparedQuery { statement })
            }
            Err(error) => {
                self.error();
                Err(error)
            }
        }
    }

    /// Begins a transaction, which is rolled back when it is dropped without a commit.
    ///
    /// # Errors
    /// 25001 when one is open already.
    pub fn transaction(&mut self) -> Result<Transaction<'_>> {
        if self.transaction_status() != b'I' {
            return Err(SqlError::new("25001", "there is already a transaction in progress"));
        }
        self.execute("begin", ())?;
        Ok(Transaction { session: self, open: true })
    }

    fn run_query_source(
        &mut self,
        source: QuerySource<'_>,
        params: &dyn Params,
        sink: &mut Collector,
    ) -> Result<()> {
        let result = match source {
            QuerySource::Text(sql) if params.count() == 0 => self.simple_query(sql, sink),
            QuerySource::Text(sql) => {
                let statement = self.inner.prepare_text(sql);
                statement.and_then(|s| self.run_statement(&s, params, sink))
            }
            QuerySource::Prepared(prepared) => {
                self.run_statement(&prepared.statement, params, sink)
            }
        };
        if result.is_err() {
            self.error();
        }
        result
    }

    fn run_statement(
        &mut self,
        statement: &Arc<Statement>,
        params: &dyn Params,
        sink: &mut Collector,
    ) -> Result<()> {
        let types = Arc::clone(&statement.described().parameters);
        if types.len() != params.count() {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "{} parameters given, but the statement has {}",
                    params.count(),
                    types.len()
                ),
            ));
        }
        let mut values = Vec::with_capacity(types.len());
        for (i, type_oid) in types.iter().enumerate() {
            // A parameter of a domain type takes a value of the domain's base type.
            let type_oid = self.text_settings().types.column_type(*type_oid).oid;
            values.push(params.value(i, type_oid, self.text_settings())?);
        }
        if let Some(columns) = &statement.described().columns {
            sink.columns(columns)?;
        }
        self.inner.run_prepared_once(Arc::clone(statement), values, sink)?;
        self.inner.end_message()
    }
}

/// Collects the rows of the last statement.
#[derive(Default)]
struct Collector {
    keep: bool,
    columns: Vec<ColumnInfo>,
    rows: Vec<Vec<Datum>>,
    count: u64,
}

impl RowSink for Collector {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        if self.keep {
            self.rows.push(row.to_vec());
        }
        Ok(())
    }
}

impl ResultSink for Collector {
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.columns = columns.to_vec();
        self.rows.clear();
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.count = tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    }
    fn empty_query(&mut self) {}
    fn notice(&mut self, _: &SqlError) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> Result<()> {
        Err(SqlError::unsupported("COPY FROM STDIN through execute"))
    }
    fn copy_in_data(&mut self, _: &mut Vec<u8>) -> Result<bool> {
        Err(SqlError::unsupported("COPY FROM STDIN through execute"))
    }
    fn copy_out_begin(&mut self, _: usize) -> Result<()> {
        Err(SqlError::unsupported("COPY TO STDOUT through execute"))
    }
    fn copy_out(&mut self, _: &[u8]) -> Result<()> {
        Err(SqlError::unsupported("COPY TO STDOUT through execute"))
    }
    fn copy_out_end(&mut self) {}
}

/// Reads text as a value of the type.
fn read(text: &str, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
    let context = InputContext { settings, now: 0 };
    Ok(niwaki_types::input(ColumnType::new(type_oid), text, &context)?)
}

fn mismatch(what: &str, type_oid: TypeOid) -> SqlError {
    let column = ColumnType::new(type_oid);
    SqlError::new(
        "42804",
        format!("{what} does not fit type {}", niwaki_sql::types::format_type(column)),
    )
}

macro_rules! integer_values {
    ($($rust:ty),+) => {$(
        impl ToValue for $rust {
            fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
                let out_of_range = || SqlError::new("22003", format!("{self} is out of range"));
                Ok(match type_oid {
                    TypeOid::INT2 => Datum::Int2(i16::try_from(*self).map_err(|_| out_of_range())?),
                    TypeOid::INT4 => Datum::Int4(i32::try_from(*self).map_err(|_| out_of_range())?),
                    TypeOid::INT8 => Datum::Int8(i64::from(*self)),
                    TypeOid::FLOAT8 => Datum::Float8(i64::from(*self) as f64),
                    TypeOid::OID => Datum::Oid(u32::try_from(*self).map_err(|_| out_of_range())?),
                    // Numeric, text, and every other type whose text form can be a number.
                    _ => read(&self.to_string(), type_oid, settings)?,
                })
            }
        }
        impl FromValue for $rust {
            fn from_value(value: &Datum, type_oid: TypeOid, _: &TextSettings) -> Result<Self> {
                let wide = match value {
                    Datum::Int2(v) => i64::from(*v),
                    Datum::Int4(v) | Datum::Date(v) => i64::from(*v),
                    Datum::Int8(v)
                    | Datum::Timestamp(v)
                    | Datum::TimestampTz(v)
                    | Datum::Time(v) => *v,
                    Datum::Oid(v) => i64::from(*v),
                    Datum::Null => return Err(null()),
                    _ => return Err(mismatch(concat!("an ", stringify!($rust)), type_oid)),
                };
                <$rust>::try_from(wide)
                    .map_err(|_| SqlError::new("22003", format!("{wide} is out of range")))
            }
        }
    )+};
}
integer_values!(i16, i32, i64, u32);

fn null() -> SqlError {
    SqlError::new("22002", "the value is NULL: read it as an Option")
}

impl ToValue for bool {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        match type_oid {
            TypeOid::BOOL => Ok(Datum::Bool(*self)),
            _ => read(if *self { "true" } else { "false" }, type_oid, settings),
        }
    }
}

impl FromValue for bool {
    fn from_value(value: &Datum, type_oid: TypeOid, _: &TextSettings) -> Result<Self> {
        match value {
            Datum::Bool(v) => Ok(*v),
            Datum::Null => Err(null()),
            _ => Err(mismatch("a bool", type_oid)),
        }
    }
}

impl ToValue for f64 {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        match type_oid {
            TypeOid::FLOAT8 => Ok(Datum::Float8(*self)),
            _ => read(&self.to_string(), type_oid, settings),
        }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Datum, type_oid: TypeOid, settings: &TextSettings) -> Result<Self> {
        match value {
            Datum::Float8(v) => Ok(*v),
            Datum::Float4(v) => Ok(f64::from(*v)),
            Datum::Int2(v) => Ok(f64::from(*v)),
            Datum::Int4(v) => Ok(f64::from(*v)),
            Datum::Numeric(_) => {
                let text = niwaki_types::to_text(value, type_oid, settings);
                text.parse().map_err(|_| mismatch("an f64", type_oid))
            }
            Datum::Null => Err(null()),
            _ => Err(mismatch("an f64", type_oid)),
        }
    }
}

impl ToValue for str {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        if self.contains('\0') {
            return Err(SqlError::new(
                "22021",
                "invalid byte sequence for encoding \"UTF8\": 0x00",
            ));
        }
        read(self, type_oid, settings)
    }
}

impl ToValue for String {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        self.as_str().to_value(type_oid, settings)
    }
}

impl FromValue for String {
    fn from_value(value: &Datum, type_oid: TypeOid, settings: &TextSettings) -> Result<Self> {
        match value {
            Datum::Null => Err(null()),
            value => Ok(niwaki_types::to_text(value, type_oid, settings)),
        }
    }
}

impl ToValue for [u8] {
    fn to_value(&self, type_oid: TypeOid, _: &TextSettings) -> Result<Datum> {
        match type_oid {
            TypeOid::BYTEA => Ok(Datum::Bytea(Arc::from(self))),
            TypeOid::UUID => {
                self.try_into().map(Datum::Uuid).map_err(|_| mismatch("bytes", type_oid))
            }
            _ => Err(mismatch("bytes", type_oid)),
        }
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        self.as_slice().to_value(type_oid, settings)
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Datum, type_oid: TypeOid, _: &TextSettings) -> Result<Self> {
        match value {
            Datum::Bytea(v) => Ok(v.to_vec()),
            Datum::Uuid(v) => Ok(v.to_vec()),
            Datum::Null => Err(null()),
            _ => Err(mismatch("bytes", type_oid)),
        }
    }
}

impl ToValue for Datum {
    fn to_value(&self, _: TypeOid, _: &TextSettings) -> Result<Datum> {
        Ok(self.clone())
    }
}

impl FromValue for Datum {
    fn from_value(value: &Datum, _: TypeOid, _: &TextSettings) -> Result<Self> {
        Ok(value.clone())
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        match self {
            Some(value) => value.to_value(type_oid, settings),
            None => Ok(Datum::Null),
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Datum, type_oid: TypeOid, settings: &TextSettings) -> Result<Self> {
        match value {
            Datum::Null => Ok(None),
            value => T::from_value(value, type_oid, settings).map(Some),
        }
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        (**self).to_value(type_oid, settings)
    }
}

fn no_parameter() -> SqlError {
    SqlError::internal("a parameter past the last one")
}

impl Params for () {
    fn count(&self) -> usize {
        0
    }
    fn value(&self, _: usize, _: TypeOid, _: &TextSettings) -> Result<Datum> {
        Err(no_parameter())
    }
}

impl Params for &[&dyn ToValue] {
    fn count(&self) -> usize {
        self.len()
    }
    fn value(&self, position: usize, type_oid: TypeOid, settings: &TextSettings) -> Result<Datum> {
        self.get(position).ok_or_else(no_parameter)?.to_value(type_oid, settings)
    }
}

impl Params for Vec<Datum> {
    fn count(&self) -> usize {
        self.len()
    }
    fn value(&self, position: usize, _: TypeOid, _: &TextSettings) -> Result<Datum> {
        self.get(position).cloned().ok_or_else(no_parameter)
    }
}

macro_rules! tuple_params {
    ($count:expr; $($name:ident $position:tt),+) => {
        impl<$($name: ToValue),+> Params for ($($name,)+) {
            fn count(&self) -> usize {
                $count
            }
            fn value(
                &self,
                position: usize,
                type_oid: TypeOid,
                settings: &TextSettings,
            ) -> Result<Datum> {
                match position {
                    $($position => self.$position.to_value(type_oid, settings),)+
                    _ => Err(no_parameter()),
                }
            }
        }
    };
}
tuple_params!(1; A 0);
tuple_params!(2; A 0, B 1);
tuple_params!(3; A 0, B 1, C 2);
tuple_params!(4; A 0, B 1, C 2, D 3);
tuple_params!(5; A 0, B 1, C 2, D 3, E 4);
tuple_params!(6; A 0, B 1, C 2, D 3, E 4, F 5);
tuple_params!(7; A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_params!(8; A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
