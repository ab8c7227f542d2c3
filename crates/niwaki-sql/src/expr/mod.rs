//! Typed expressions: what analysis makes and execution evaluates.

mod batch;
mod cast;
pub(crate) mod collation;
mod domain;
mod eval;
mod hashed;
mod object_names;
mod subscript;
mod user_function;
mod walk;

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::functions::Function;
use crate::plan::{JsonRecords, SubPlan};
use crate::query::Query;
use crate::types::is_polymorphic;

pub(crate) use batch::{Batch, Rows, Values};
pub(crate) use cast::{cast_compared, cast_value, coerce_length, shows_names, value_text};
pub(crate) use collation::Collation;
pub(crate) use domain::DomainRules;
pub(crate) use eval::{Runtime, State, is_true, work_on};
pub(crate) use hashed::{LookUp, for_key, is_hashed, key_type};
pub use object_names::object_input;
pub(crate) use object_names::{ROLES, function_name, object_name, row_type_name, type_name};
pub(crate) use subscript::Subscripts;
pub(crate) use user_function::{FunctionKey, UserFunction, inline_call, keeps_promises};

/// An expression with its type and where it stands in the query text (bytes, -1 for nowhere).
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) ty: TypeOid,
    pub(crate) typmod: i32,
    /// The domain whose values these are; `ty` and `typmod` are what it is made of in the end.
    pub(crate) domain: Option<TypeOid>,
    /// COLLATE that is said of it, and shown.
    pub(crate) collation: Option<Oid>,
    /// The collation that follows from this and from its parts.
    pub(crate) derived: Collation,
    /// Of a call: whether it was written in a syntax of its own (`x AT TIME ZONE y`), in which it is shown.
    pub(crate) own_syntax: bool,
    pub(crate) location: i32,
}

/// Why a value is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CastPurpose {
    /// The statement says so: over-long strings are cut off instead of refused.
    Written,
    /// Its place wants another type.
    Implied,
    /// It is compared with a value of that type: a time that is beyond its range is before or behind all of them.
    Compared,
}

/// What an expression does.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A known value.
    Const(Datum),
    /// Parameter `$n`, from 0.
    Param(usize),
    /// A value of the current row (depth 0) or of the row of an enclosing query.
    Slot {
        depth: usize,
        slot: usize,
    },
    /// A function or an operator.
    Call {
        function: &'static Function,
        arguments: Vec<Expr>,
    },
    /// A function of a user.
    UserCall {
        function: Arc<UserFunction>,
        arguments: Vec<Expr>,
    },
    /// A conversion.
    Cast {
        argument: Box<Expr>,
        from: TypeOid,
        purpose: CastPurpose,
    },
    /// Fits a string or number to the modifier of the expression's type.
    Length {
        argument: Box<Expr>,
        explicit: bool,
    },
    /// The value itself, which must be one of a domain: else the statement fails.
    Domain {
        argument: Box<Expr>,
        rules: Arc<DomainRules>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        argument: Box<Expr>,
        negated: bool,
    },
    BoolTest {
        argument: Box<Expr>,
        test: BoolTest,
    },
    /// CASE; with an operand, its value is what `CaseOperand` of this depth gives.
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        default: Option<Box<Expr>>,
    },
    CaseOperand,
    Coalesce(Vec<Expr>),
    /// `NULLIF(a, b)`; `equal` is the `=` of the two types, over casts of them. In it, the value of
    /// `result` is what `CaseOperand` gives.
    NullIf {
        result: Box<Expr>,
        equal: Box<Expr>,
    },
    /// GREATEST or LEAST
    MinMax {
        greatest: bool,
        arguments: Vec<Expr>,
    },
    /// `IS [NOT] DISTINCT FROM`; `equal` is the `=` of the two.
    Distinct {
        equal: &'static Function,
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    /// `ARRAY[…]`; of arrays it is one with a dimension more.
    Array(Vec<Expr>),
    /// `array[1][2]`, `array[1:2]`
    Subscript {
        array: Box<Expr>,
        subscripts: Box<Subscripts>,
    },
    /// The array with another value in a part of it: what an assignment to the part stores.
    AssignPart {
        array: Box<Expr>,
        subscripts: Box<Subscripts>,
        value: Box<Expr>,
    },
    /// `ROW(…)`, or the row of a FROM item as a value.
    Row(Box<RowValue>),
    /// A field of a composite value.
    Field {
        argument: Box<Expr>,
        field: usize,
        name: Arc<str>,
        /// The field's type, which the value must have.
        kind: TypeOid,
    },
    /// A composite value with fields of a JSON object: `jsonb_populate_record(row, json)`.
    Populated {
        records: Arc<JsonRecords>,
        arguments: Vec<Expr>,
    },
    /// IS [NOT] NULL of a composite value: of each of its fields.
    RowNull {
        argument: Box<Expr>,
        negated: bool,
    },
    /// The composite value with another value of a field, made of NULLs where it is NULL: what an assignment to the field
    /// stores. `kinds` are the types of all fields.
    AssignField {
        record: Box<Expr>,
        field: usize,
        name: Arc<str>,
        kinds: Arc<[TypeOid]>,
        value: Box<Expr>,
    },
    /// `left op ANY (array)` or ALL
    ArrayCompare {
        function: &'static Function,
        any: bool,
        left: Box<Expr>,
        right: Box<Expr>,
        /// Where the array is remembered as a table of its values, if it is one for all rows of the
        /// statement and equality is asked for (`exec/value_lists.rs`). Planning gives the number.
        list: Option<u32>,
    },
    /// A nested query used as an expression.
    SubQuery(Box<SubQuery>),
    /// An aggregate, by its number in the query; replaced by a slot before execution.
    Aggregate(usize),
    /// `GROUPING (…)`; replaced by a slot before execution.
    Grouping(Vec<Expr>),
    /// A window function, by its number in the query; replaced by a slot before execution.
    Window(usize),
    /// A set-returning function, by its number in the query's list; replaced by a slot.
    SetReturning(usize),
    /// Of the row that a cursor is on: its address (`tid`), or the table that it is of (`oid`), which may be a partition.
    CurrentOf {
        cursor: Arc<str>,
        table: Arc<Relation>,
    },
}

/// What the fields of a row are called, in their order.
pub(crate) type FieldNames = Arc<[Arc<str>]>;

/// Expressions that make a composite value together.
#[derive(Clone, Debug)]
pub(crate) struct RowValue {
    pub(crate) fields: Vec<Expr>,
    /// What the fields are called, where the type does not say it.
    pub(crate) names: Option<FieldNames>,
    /// The FROM item whose row it is, if it is one, and what the query calls its columns.
    pub(crate) of_item: Option<(Arc<str>, FieldNames)>,
    /// What is NULL of a row that an outer join made up: the whole value is NULL then.
    pub(crate) present: Option<Expr>,
}

impl RowValue {
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.fields.iter().chain(&self.present)
    }
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.fields.iter_mut().chain(&mut self.present)
    }
}

/// IS TRUE and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolTest {
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

/// A nested query used as an expression.
#[derive(Clone, Debug)]
pub(crate) struct SubQuery {
    pub(crate) kind: SubQueryKind,
    pub(crate) query: Nested,
}

/// A nested query before and after it is planned.
#[derive(Clone, Debug)]
pub(crate) enum Nested {
    Query(Box<Query>),
    Plan(Arc<SubPlan>),
}

/// What is asked of a nested query.
#[derive(Clone, Debug)]
pub(crate) enum SubQueryKind {
    Exists,
    /// The one value of its one row.
    Scalar,
    /// A column of its one row, which is assigned to several columns at once: the one that is
    /// computed first asks for all of them. `place` is where the query stands in the text.
    Assigned {
        place: i32,
        column: usize,
    },
    /// All values as an array.
    Array,
    /// `left op ANY (query)` or ALL
    Compare {
        function: &'static Function,
        any: bool,
        left: Expr,
        right_cast: Expr,
    },
    /// `(left, …) op (query)`, with ANY, ALL or neither.
    CompareRows(Box<ComparedRows>),
}

/// A row of expressions that is compared with the rows of a query.
#[derive(Clone, Debug)]
pub(crate) struct ComparedRows {
    pub(crate) with: Quantifier,
    /// The operator, for each pair of parts.
    pub(crate) functions: Vec<&'static Function>,
    /// Over the row around the query. Each is computed once for all rows of the query.
    pub(crate) left: Vec<Expr>,
    /// What they are compared with, over the columns of the query.
    pub(crate) right: Vec<Expr>,
    /// The comparison, over a row of the values of `left` and, behind them, the columns of the
    /// query.
    pub(crate) compared: Expr,
}

impl ComparedRows {
    /// The operator, as it is written.
    pub(crate) fn operator(&self) -> &'static str {
        self.functions.first().map_or("=", |function| function.name)
    }
}

/// With which rows of a query something is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
    /// With the only one; NULL where there is none.
    Only,
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, ty: TypeOid, location: i32) -> Self {
        let derived = Collation::derived(&kind, ty);
        let (domain, collation, own_syntax) = (None, None, false);
        Self { kind, ty, typmod: -1, domain, collation, derived, own_syntax, location }
    }
    pub(crate) fn constant(value: Datum, ty: TypeOid, location: i32) -> Self {
        Self::new(ExprKind::Const(value), ty, location)
    }
    pub(crate) fn slot(slot: usize, column: ColumnType) -> Self {
        Self {
            kind: ExprKind::Slot { depth: 0, slot },
            ty: column.oid,
            typmod: column.typmod,
            domain: column.domain,
            collation: None,
            derived: Collation::of_type(column.oid),
            own_syntax: false,
            location: -1,
        }
    }
    pub(crate) fn call(
        function: &'static Function,
        arguments: Vec<Expr>,
        ty: TypeOid,
        location: i32,
    ) -> Self {
        let function = function.under(Collation::of_all(&arguments));
        Self::new(ExprKind::Call { function, arguments }, ty, location)
    }
    pub(crate) fn column_type(&self) -> ColumnType {
        ColumnType { oid: self.ty, typmod: self.typmod, domain: self.domain }
    }
    /// What its column is called where it is a FROM item, if it is a function's call whose definition says so.
    pub(crate) fn lone_column(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::UserCall { function, .. } => function.column.as_deref(),
            _ => None,
        }
    }
    /// The type that it was given: the domain, if it is one.
    pub(crate) fn declared(&self) -> TypeOid {
        self.domain.unwrap_or(self.ty)
    }
    /// The type of the values that it makes, where that does not depend on what it is said to be.
    pub(crate) fn made_type(&self) -> Option<TypeOid> {
        match &self.kind {
            ExprKind::Call { function, .. } => {
                Some(function.result).filter(|ty| !is_polymorphic(*ty) && !ty.is_record())
            }
            ExprKind::Coalesce(parts) | ExprKind::MinMax { arguments: parts, .. } => {
                parts.first().map(|part| part.ty)
            }
            ExprKind::Case { branches, .. } => branches.first().map(|(_, result)| result.ty),
            ExprKind::Array(parts) => {
                let part = parts.first().map(|part| part.ty);
                part.map(|part| crate::types::array_of(part).unwrap_or(part))
            }
            ExprKind::NullIf { result, .. } => Some(result.ty),
            ExprKind::Field { kind, .. } => Some(*kind),
            ExprKind::SubQuery(sub) => match (&sub.kind, &sub.query) {
                (SubQueryKind::Scalar, Nested::Query(query)) => {
                    query.columns.first().map(|column| column.column_type.oid)
                }
                _ => None,
            },
            _ => None,
        }
    }
    pub(crate) fn is_null_const(&self) -> bool {
        matches!(self.kind, ExprKind::Const(Datum::Null))
    }
}
