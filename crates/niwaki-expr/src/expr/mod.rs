//! Typed expressions, which analysis builds and execution evaluates.

mod batch;
pub mod collation;
mod compiled;
mod conversion;
mod domain;
mod eval;
mod fit;
mod hashed;
mod immutable;
mod implication;
mod inline;
pub mod json_records;
pub mod measure;
pub mod nested;
mod step;
mod subscript;
mod user_function;
pub mod value_lists;
mod walk;

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation};
use niwaki_parse::types::is_polymorphic;
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::function::Function;
use crate::plan::SealedPlan;
use crate::query::{JsonRecords, SealedQuery};

pub use batch::{Batch, Rows, Values};
pub use collation::Collation;
pub use compiled::{CompiledExpression, compiled};
pub(crate) use conversion::cast::cast_compared;
pub use conversion::cast::{cast_value, coerce_length, shows_names, value_text};
pub use conversion::convert_time::{convert_time, convert_time_of_day};
pub use conversion::json_path::{path_input, pattern};
pub use conversion::object_names::object_input;
pub use conversion::object_names::{ROLES, function_name, object_name, row_type_name, type_name};
pub use domain::DomainRules;
pub(crate) use eval::work_on;
pub use eval::{Runtime, State, is_true};
pub use fit::{Fit, fit};
pub use hashed::is_hashed;
pub(crate) use hashed::{LookUp, for_key, key_type};
pub(crate) use immutable::is_immutable_over_parameters;
pub use immutable::{is_immutable, refuse_domains, refuse_user_functions};
pub use implication::implies;
pub use inline::{inline_call, keeps_promises};
pub use step::{Running, Step};
pub use subscript::Subscripts;
pub use user_function::{FunctionKey, UserFunction};
pub(crate) use walk::Likeness;

/// An expression with its type, and its byte offset in the query text (-1 if it is not in the
/// text).
#[derive(Debug)]
pub struct Expr {
    /// The kind, with the parts.
    pub kind: ExprKind,
    /// The type of the values.
    pub ty: TypeOid,
    /// The modifier of the type, or -1.
    pub typmod: i32,
    /// The domain of the values, if any. `ty` and `typmod` describe the domain's base type.
    pub domain: Option<TypeOid>,
    /// The collation of a COLLATE clause on the expression, which the deparser shows.
    pub collation: Option<Oid>,
    /// The collation derived from the expression and its parts.
    pub derived: Collation,
    /// Set for a call that was written in a syntax of its own (`x AT TIME ZONE y`), in which it is
    /// also shown.
    pub own_syntax: bool,
    /// The byte offset in the query text, or -1.
    pub location: i32,
}

impl Clone for Expr {
    // Not derived: derived code is made once more in each crate that copies an expression.
    #[inline(never)]
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            ty: self.ty,
            typmod: self.typmod,
            domain: self.domain,
            collation: self.collation,
            derived: self.derived,
            own_syntax: self.own_syntax,
            location: self.location,
        }
    }
}

/// The reason for a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastPurpose {
    /// The statement contains the cast: over-long strings are cut instead of refused.
    Written,
    /// The place of the value requires another type.
    Implied,
    /// The value is compared with a value of that type. A time beyond that type's range counts as
    /// before or behind all its times.
    Compared,
}

/// The kind of an expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant.
    Const(Datum),
    /// Parameter `$n`, counted from 0.
    Param(usize),
    /// A value of the current row (depth 0) or of the row of an enclosing query.
    Slot {
        /// The number of queries between the expression and the row.
        depth: usize,
        /// The slot of the row.
        slot: usize,
    },
    /// A call of a built-in function or operator.
    Call {
        /// The function.
        function: &'static Function,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// A call of a user's function.
    UserCall {
        /// The function.
        function: Arc<UserFunction>,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// A conversion to another type.
    Cast {
        /// The argument.
        argument: Box<Expr>,
        /// The type of the argument.
        from: TypeOid,
        /// The reason for the conversion.
        purpose: CastPurpose,
    },
    /// Fits a string or number to the modifier of the expression's type.
    Length {
        /// The argument.
        argument: Box<Expr>,
        /// True for a written cast, which cuts over-long strings.
        explicit: bool,
    },
    /// The argument itself, which must belong to a domain. Otherwise the statement fails.
    Domain {
        /// The argument.
        argument: Box<Expr>,
        /// The checks of the domain.
        rules: Arc<DomainRules>,
    },
    /// AND of conditions.
    And(Vec<Expr>),
    /// OR of conditions.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS NULL or IS NOT NULL.
    IsNull {
        /// The argument.
        argument: Box<Expr>,
        /// True for the negation.
        negated: bool,
    },
    /// IS TRUE and its like.
    BoolTest {
        /// The argument.
        argument: Box<Expr>,
        /// The test.
        test: BoolTest,
    },
    /// CASE. With an operand, the operand's value is the value of `CaseOperand` at this depth.
    Case {
        /// The operand, if there is one.
        operand: Option<Box<Expr>>,
        /// The conditions, each with its result.
        branches: Vec<(Expr, Expr)>,
        /// The result if no condition holds.
        default: Option<Box<Expr>>,
    },
    /// The value of the enclosing CASE operand.
    CaseOperand,
    /// COALESCE: the first value that is not NULL.
    Coalesce(Vec<Expr>),
    /// `NULLIF(a, b)`. `equal` is the `=` of the two types, over casts of both arguments. In
    /// `equal`, `CaseOperand` has the value of `result`.
    NullIf {
        /// The first argument.
        result: Box<Expr>,
        /// The comparison of both arguments.
        equal: Box<Expr>,
    },
    /// GREATEST or LEAST
    MinMax {
        /// True for GREATEST.
        greatest: bool,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// `IS [NOT] DISTINCT FROM`. `equal` is the `=` operator of the two types.
    Distinct {
        /// The `=` operator of the two types.
        equal: &'static Function,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
        /// True for the negation.
        negated: bool,
    },
    /// `ARRAY[…]`. An array of arrays has one more dimension.
    Array(Vec<Expr>),
    /// `array[1][2]`, `array[1:2]`
    Subscript {
        /// The array.
        array: Box<Expr>,
        /// The subscripts.
        subscripts: Box<Subscripts>,
    },
    /// The array after an assignment to a part of it.
    AssignPart {
        /// The array.
        array: Box<Expr>,
        /// The subscripts of the part.
        subscripts: Box<Subscripts>,
        /// The value of the part.
        value: Box<Expr>,
    },
    /// `ROW(…)`, or the row of a FROM item as a value.
    Row(Box<RowValue>),
    /// A field of a composite value.
    Field {
        /// The argument.
        argument: Box<Expr>,
        /// The position of the field.
        field: usize,
        /// The name of the field.
        name: Arc<str>,
        /// The field's type, which the value must have.
        kind: TypeOid,
    },
    /// A composite value with fields of a JSON object: `jsonb_populate_record(row, json)`.
    Populated {
        /// The conversion of the object.
        records: Arc<JsonRecords>,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// `IS [NOT] NULL` of a composite value, which tests each field.
    RowNull {
        /// The argument.
        argument: Box<Expr>,
        /// True for the negation.
        negated: bool,
    },
    /// The composite value after an assignment to one of its fields. A NULL record counts as a
    /// record of NULLs. `kinds` are the types of all fields.
    AssignField {
        /// The composite value.
        record: Box<Expr>,
        /// The position of the field.
        field: usize,
        /// The name of the field.
        name: Arc<str>,
        /// The types of all fields.
        kinds: Arc<[TypeOid]>,
        /// The new value of the field.
        value: Box<Expr>,
    },
    /// `left op ANY (array)` or ALL
    ArrayCompare {
        /// The operator.
        function: &'static Function,
        /// True for ANY, false for ALL.
        any: bool,
        /// The left side.
        left: Box<Expr>,
        /// The array.
        right: Box<Expr>,
        /// The number of the remembered table of the array's values (`expr/value_lists.rs`), which
        /// planning assigns. Set if the array has one value for all rows of the statement, and the
        /// operator is an equality.
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
    /// A value of a cursor's current row: its address (`tid`), or the OID (`oid`) of its table,
    /// which may be a partition.
    CurrentOf {
        /// The name of the cursor.
        cursor: Arc<str>,
        /// The table that the statement changes.
        table: Arc<Relation>,
    },
}

/// The names of a row's fields, in order.
pub(crate) type FieldNames = Arc<[Arc<str>]>;

/// The expressions that make up a composite value.
#[derive(Clone, Debug)]
pub struct RowValue {
    /// The fields.
    pub fields: Vec<Expr>,
    /// The names of the fields, if the type does not define them.
    pub names: Option<FieldNames>,
    /// The FROM item whose row this is, if any, with the query's names for its columns.
    pub of_item: Option<(Arc<str>, FieldNames)>,
    /// An expression that is NULL for a row that an outer join made up. The whole value is then
    /// NULL.
    pub present: Option<Expr>,
}

/// The tests IS TRUE, IS FALSE and IS UNKNOWN, with their negations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolTest {
    /// IS TRUE
    True,
    /// IS NOT TRUE
    NotTrue,
    /// IS FALSE
    False,
    /// IS NOT FALSE
    NotFalse,
    /// IS UNKNOWN
    Unknown,
    /// IS NOT UNKNOWN
    NotUnknown,
}

/// A nested query used as an expression.
#[derive(Clone, Debug)]
pub struct SubQuery {
    /// The use of the result.
    pub kind: SubQueryKind,
    /// The query.
    pub query: Nested,
}

/// A nested query before and after it is planned.
#[derive(Clone, Debug)]
pub enum Nested {
    /// The query before planning.
    Query(SealedQuery),
    /// The plan of the query.
    Plan(SealedPlan),
}

/// The use of a nested query's result.
#[derive(Clone, Debug)]
pub enum SubQueryKind {
    /// EXISTS.
    Exists,
    /// The single value of the query's single row.
    Scalar,
    /// A column of the query's single row, which is assigned to several columns at once. The first
    /// column to be computed runs the query for all of them. `place` is the query's place in the
    /// text.
    Assigned {
        /// The place of the query in the text.
        place: i32,
        /// The column of the row.
        column: usize,
    },
    /// All values as an array.
    Array,
    /// `left op ANY (query)` or ALL
    Compare {
        /// The operator.
        function: &'static Function,
        /// True for ANY, false for ALL.
        any: bool,
        /// The left side.
        left: Expr,
        /// The right side, over the column of the query.
        right_cast: Expr,
    },
    /// `(left, …) op (query)`, with ANY, ALL or neither.
    CompareRows(Box<ComparedRows>),
}

/// A row of expressions, compared with the rows of a query.
#[derive(Clone, Debug)]
pub struct ComparedRows {
    /// The rows that count.
    pub with: Quantifier,
    /// The operator for each pair of parts.
    pub functions: Vec<&'static Function>,
    /// The left side, over the row around the query. Each expression is computed once for all rows
    /// of the query.
    pub left: Vec<Expr>,
    /// The right side, over the columns of the query.
    pub right: Vec<Expr>,
    /// The comparison, over a row with the values of `left` and then the columns of the query.
    pub compared: Expr,
}

impl ComparedRows {
    /// Returns the operator as it is written.
    pub fn operator(&self) -> &'static str {
        self.functions.first().map_or("=", |function| function.name)
    }
}

/// The rows of a query that a comparison considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// ANY: at least one row.
    Any,
    /// ALL: every row.
    All,
    /// The only row; the result is NULL if there is none.
    Only,
}

impl Expr {
    /// Creates an expression without a type modifier.
    pub fn new(kind: ExprKind, ty: TypeOid, location: i32) -> Self {
        let derived = Collation::derived(&kind, ty);
        let (domain, collation, own_syntax) = (None, None, false);
        Self { kind, ty, typmod: -1, domain, collation, derived, own_syntax, location }
    }
    /// Creates a constant.
    pub fn constant(value: Datum, ty: TypeOid, location: i32) -> Self {
        Self::new(ExprKind::Const(value), ty, location)
    }
    /// Creates a reference to a slot of the current row.
    pub fn slot(slot: usize, column: ColumnType) -> Self {
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
    /// Returns the type of the values, with modifier and domain.
    pub fn column_type(&self) -> ColumnType {
        ColumnType { oid: self.ty, typmod: self.typmod, domain: self.domain }
    }
    /// Returns the column name for the expression as a FROM item, if a called function's definition
    /// gives one.
    pub fn lone_column(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::UserCall { function, .. } => function.column.as_deref(),
            ExprKind::Call { function, .. } => function.column_name(),
            _ => None,
        }
    }
    /// Returns the declared type: the domain, if there is one.
    pub fn declared(&self) -> TypeOid {
        self.domain.unwrap_or(self.ty)
    }
    /// Returns the type of the values that the expression makes, if this type does not depend on
    /// the declared type.
    pub fn made_type(&self) -> Option<TypeOid> {
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
                part.map(|part| niwaki_parse::types::array_of(part).unwrap_or(part))
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
    /// Decides whether the expression is the constant NULL.
    pub fn is_null_const(&self) -> bool {
        matches!(self.kind, ExprKind::Const(Datum::Null))
    }
}
