//! Random schemas over one set of columns.
//!
//! The indexes are expression, partial, INCLUDE, multi-column and unique indexes. Some keys are
//! equal without looking alike.

use std::any::Any;
use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_nbtree::IndexOptions;
use niwaki_storage::RelFile;
use niwaki_table::{
    ExpressionError, IndexDefinition, KeyColumn, KeyExpression, KeySource, UniqueCheckTime,
};
use niwaki_txn::TableId;
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, Numeric, TypeOid};

/// Columns of the table, by position.
pub(crate) const ID: usize = 0;
const A: usize = 1;
const B: usize = 2;
pub(crate) const U: usize = 3;
const N: usize = 4;
const T: usize = 5;
const F: usize = 6;
const STAMP: usize = 7;
pub(crate) const COLUMNS: usize = 8;
const TYPES: [TypeOid; COLUMNS] = [
    TypeOid::INT4,
    TypeOid::INT4,
    TypeOid::INT4,
    TypeOid::INT4,
    TypeOid::NUMERIC,
    TypeOid::TEXT,
    TypeOid::FLOAT8,
    TypeOid::INT4,
];

/// A row, as the model keeps it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) id: i32,
    /// NULL at times.
    pub(crate) a: Option<i32>,
    pub(crate) b: i32,
    /// Perhaps unique.
    pub(crate) u: i32,
    /// A numeric's text: 1, 1.0 and 1.00 are equal, and different.
    pub(crate) n: String,
    pub(crate) t: String,
    /// A number's text: 0 and -0 are equal, and different.
    pub(crate) f: String,
    /// Number that tells one write from another.
    pub(crate) stamp: i32,
}

fn int4(value: Option<i32>) -> Datum {
    value.map_or(Datum::Null, Datum::Int4)
}

impl Row {
    pub(crate) fn datums(&self) -> Vec<Datum> {
        let numeric = Numeric::parse(&self.n).expect("a number");
        vec![
            Datum::Int4(self.id),
            int4(self.a),
            Datum::Int4(self.b),
            Datum::Int4(self.u),
            Datum::Numeric(Arc::new(numeric)),
            Datum::text(&self.t),
            Datum::Float8(self.f.parse().expect("a number")),
            Datum::Int4(self.stamp),
        ]
    }

    pub(crate) fn of(datums: &[Datum]) -> Self {
        let int = |datum: &Datum| match datum {
            Datum::Int4(value) => Some(*value),
            Datum::Null => None,
            other => panic!("{other:?} is no integer"),
        };
        let (Datum::Numeric(n), Datum::Text(t), Datum::Float8(f)) =
            (&datums[N], &datums[T], &datums[F])
        else {
            panic!("a row of the wrong shape: {datums:?}");
        };
        Self {
            id: int(&datums[ID]).expect("an id"),
            a: int(&datums[A]),
            b: int(&datums[B]).expect("b"),
            u: int(&datums[U]).expect("u"),
            n: n.to_string(),
            t: t.to_string(),
            f: f.to_string(),
            stamp: int(&datums[STAMP]).expect("a stamp"),
        }
    }

    /// Makes a row whose values come from small sets.
    pub(crate) fn random(rng: &SeededRng, id: i32, stamp: i32) -> Self {
        let (n, t, f) = ("0".to_owned(), String::new(), "0".to_owned());
        let mut row = Self { id, a: None, b: 0, u: 0, n, t, f, stamp };
        (A..=F).for_each(|column| row.change(rng, column));
        row
    }

    /// Gives some column except the id another value, or the same one.
    pub(crate) fn change_any(&mut self, rng: &SeededRng) {
        self.change(rng, A + rng.below((F - A + 1) as u64) as usize);
    }

    /// Gives a column another value, or the same one.
    fn change(&mut self, rng: &SeededRng, column: usize) {
        let small = |bound| i32::try_from(rng.below(bound)).expect("small");
        match column {
            A => self.a = Some(small(5)).filter(|a| *a < 4),
            B => self.b = small(4),
            U => self.u = small(10),
            N => self.n = ["1", "1.0", "1.00", "2", "2.0"][rng.below(5) as usize].to_owned(),
            F => self.f = ["0", "-0", "1.5", "NaN", "-inf"][rng.below(5) as usize].to_owned(),
            _ => {
                // Mostly short; sometimes so long that a page holds few rows.
                let length = [2400, 900, 20, 3, 2, 1, 1, 0][rng.below(8) as usize];
                self.t = match rng.below(3) {
                    // Hardly to be compressed.
                    0 if length > 20 => {
                        let letter = |_| char::from(b'!' + (rng.below(90)) as u8);
                        (0..length).map(letter).collect()
                    }
                    0 => "X".repeat(length),
                    1 => "x".repeat(length),
                    _ => "y".repeat(length),
                };
            }
        }
    }
}

/// An expression over a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formula {
    /// a + b.
    Sum,
    /// a % 2.
    Odd,
    /// b > 1.
    Large,
    /// a is not NULL and even.
    Even,
    /// The beginning of t in small letters: what a case-insensitive operator class would compare.
    Folded,
}

#[derive(Debug)]
struct Computed {
    formula: Formula,
    columns: ColumnMask,
}

impl KeyExpression for Computed {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        Ok(match (self.formula, &row[A], &row[B]) {
            (Formula::Folded, ..) => match &row[T] {
                Datum::Text(t) => {
                    let begin: String = t.chars().take(3).collect();
                    Datum::text(&begin.to_lowercase())
                }
                _ => Datum::Null,
            },
            (Formula::Large, _, Datum::Int4(b)) => Datum::Bool(*b > 1),
            (Formula::Even, Datum::Int4(a), _) => Datum::Bool(a % 2 == 0),
            (Formula::Odd, Datum::Int4(a), _) => Datum::Int4(a % 2),
            (Formula::Sum, Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(a + b),
            _ => Datum::Null,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn computed(formula: Formula) -> Arc<dyn KeyExpression> {
    let columns: &[usize] = match formula {
        Formula::Sum => &[A, B],
        Formula::Large => &[B],
        Formula::Odd | Formula::Even => &[A],
        Formula::Folded => &[T],
    };
    Arc::new(Computed { formula, columns: columns.iter().copied().collect() })
}

pub(crate) fn column_types() -> Vec<ColumnType> {
    TYPES.map(ColumnType::new).to_vec()
}

/// Returns the primary key.
pub(crate) fn primary(file: RelFile) -> IndexDefinition {
    let key = vec![KeyColumn::column(ID, KeyOrder::ascending(TypeOid::INT4))];
    let options = small_pages();
    IndexDefinition {
        unique: true,
        primary: true,
        options,
        ..IndexDefinition::new(TableId(2), "primary", file, key)
    }
}

fn small_pages() -> IndexOptions {
    IndexOptions { page_items_max: Some(6), ..IndexOptions::default() }
}

/// Returns a unique index on u, at once or later, of all rows or some.
pub(crate) fn unique(rng: &SeededRng, id: u64, file: RelFile) -> IndexDefinition {
    let key = vec![KeyColumn::column(U, KeyOrder::ascending(TypeOid::INT4))];
    let later = rng.chance(1, 2);
    IndexDefinition {
        unique: true,
        check_time: if later { UniqueCheckTime::Later } else { UniqueCheckTime::AtOnce },
        predicate: rng.chance(1, 3).then(|| computed(Formula::Large)),
        options: small_pages(),
        ..IndexDefinition::new(TableId(id), "unique", file, key)
    }
}

/// Makes an index of any other kind.
pub(crate) fn random(rng: &SeededRng, id: u64, file: RelFile) -> IndexDefinition {
    let mut key = vec![key_column(rng)];
    if rng.chance(1, 3) {
        key.push(key_column(rng));
    }
    let mut include = Vec::new();
    if rng.chance(1, 3) {
        include.push([A, B, N, T, F][rng.below(5) as usize]);
    }
    let predicate =
        rng.chance(1, 3).then(|| [Formula::Large, Formula::Even][rng.below(2) as usize]);
    IndexDefinition {
        include,
        predicate: predicate.map(computed),
        options: small_pages(),
        ..IndexDefinition::new(TableId(id), "index", file, key)
    }
}

fn key_column(rng: &SeededRng) -> KeyColumn {
    let order =
        |oid| if rng.chance(1, 3) { KeyOrder::descending(oid) } else { KeyOrder::ascending(oid) };
    let formula = match rng.below(9) {
        0 | 1 => return KeyColumn::column(A, order(TypeOid::INT4)),
        2 | 3 => return KeyColumn::column(B, order(TypeOid::INT4)),
        4 => return KeyColumn::column(N, order(TypeOid::NUMERIC)),
        5 => return KeyColumn::column(F, order(TypeOid::FLOAT8)),
        6 => Formula::Sum,
        7 => Formula::Folded,
        _ => Formula::Odd,
    };
    let oid = if formula == Formula::Folded { TypeOid::TEXT } else { TypeOid::INT4 };
    KeyColumn { source: KeySource::Expression(computed(formula)), order: order(oid) }
}
