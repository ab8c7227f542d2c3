//! Tests that an expression over many rows gives the same values as over each row alone.

use std::sync::Arc;

use niwaki_expr::expr::{Batch, Expr, ExprKind, Rows, Runtime, State};
use niwaki_expr::sessionless::with_context;
use niwaki_parse::types::array_of;
use niwaki_types::{Datum, Numeric, TypeOid, Vector};
use proptest::prelude::*;
use proptest::strategy::Union;

use super::{Function, operators_named};

/// Slots by type, two of each.
const SLOTS: [TypeOid; 10] = [
    TypeOid::INT2,
    TypeOid::INT4,
    TypeOid::INT8,
    TypeOid::FLOAT8,
    TypeOid::NUMERIC,
    TypeOid::TEXT,
    TypeOid::BPCHAR,
    TypeOid::DATE,
    TypeOid::TIMESTAMP,
    TypeOid::BOOL,
];

fn value(oid: TypeOid) -> BoxedStrategy<Datum> {
    let numeric = |coefficient, scale| Datum::Numeric(Arc::new(Numeric::new(coefficient, scale)));
    let value = match oid {
        TypeOid::INT2 => prop_oneof![-3i16..3, any::<i16>()].prop_map(Datum::Int2).boxed(),
        TypeOid::INT4 => prop_oneof![-3i32..3, any::<i32>()].prop_map(Datum::Int4).boxed(),
        TypeOid::INT8 => prop_oneof![-3i64..3, any::<i64>()].prop_map(Datum::Int8).boxed(),
        TypeOid::FLOAT8 => prop_oneof![
            8 => (-3i32..3).prop_map(f64::from),
            1 => any::<f64>(),
            1 => Just(f64::NAN),
            1 => Just(-0.0),
        ]
        .prop_map(Datum::Float8)
        .boxed(),
        TypeOid::NUMERIC => prop_oneof![
            // Most values share one scale.
            12 => (-300i128..300).prop_map(move |value| numeric(value, 2)),
            2 => any::<i64>().prop_map(move |value| numeric(value.into(), 2)),
            1 => (-30i128..30, 0u16..4).prop_map(move |(value, scale)| numeric(value, scale)),
            1 => Just(Datum::Numeric(Arc::new(Numeric::NAN))),
        ]
        .boxed(),
        TypeOid::TEXT => "[ab]{0,3}".prop_map(|text| Datum::text(&text)).boxed(),
        TypeOid::BPCHAR => "[ab]{0,2} {0,2}".prop_map(|text| Datum::text(&text)).boxed(),
        TypeOid::DATE => (-3i32..3).prop_map(Datum::Date).boxed(),
        TypeOid::TIMESTAMP => (-3i64..3).prop_map(Datum::Timestamp).boxed(),
        _ => any::<bool>().prop_map(Datum::Bool).boxed(),
    };
    prop_oneof![8 => value, 1 => Just(Datum::Null)].boxed()
}

fn leaf(oid: TypeOid) -> BoxedStrategy<Expr> {
    let first = SLOTS.iter().position(|slot| *slot == oid).expect("a type of the rows") * 2;
    let slot = move |slot| Expr::slot(slot, oid.into());
    prop_oneof![
        4 => (first..first + 2).prop_map(slot),
        1 => value(oid).prop_map(move |value| Expr::constant(value, oid, -1)),
    ]
    .boxed()
}

/// Generates a call of an operator with one of these names, over leaves.
fn call(names: &'static [&'static str]) -> BoxedStrategy<Expr> {
    let known = |function: &&'static Function| {
        function.arguments.len() == 2 && function.arguments.iter().all(|oid| SLOTS.contains(oid))
    };
    let functions: Vec<&'static Function> =
        names.iter().flat_map(|name| operators_named(name)).copied().filter(known).collect();
    assert!(functions.len() > 10, "there are operators");
    let call = |function: &'static Function| {
        let (left, right) = (leaf(function.arguments[0]), leaf(function.arguments[1]));
        (left, right).prop_map(move |(left, right)| {
            super::call(function, vec![left, right], function.result, -1)
        })
    };
    proptest::sample::select(functions).prop_flat_map(call).boxed()
}

/// Generates `left = ANY (array)`, also with other operators.
fn any_of_array() -> BoxedStrategy<Expr> {
    let known = |function: &&'static Function| {
        let [left, right] = function.arguments else { return false };
        left == right && SLOTS.contains(left) && array_of(*left).is_some()
    };
    let names = ["=", "<>", "<", ">="];
    let functions: Vec<&'static Function> =
        names.iter().flat_map(|name| operators_named(name)).copied().filter(known).collect();
    let compare = |function: &'static Function| {
        let oid = function.arguments[0];
        let elements = proptest::collection::vec(value(oid), 0..4);
        (leaf(oid), elements, any::<bool>()).prop_map(move |(left, elements, any)| {
            let ty = array_of(oid).expect("it is one of those");
            let array = Datum::Array(oid, Arc::new(niwaki_types::Array::list(elements)));
            let (left, right) = (Box::new(left), Box::new(Expr::constant(array, ty, -1)));
            let kind = ExprKind::ArrayCompare { function, any, left, right, list: None };
            Expr::new(kind, TypeOid::BOOL, -1)
        })
    };
    proptest::sample::select(functions).prop_flat_map(compare).boxed()
}

fn condition() -> BoxedStrategy<Expr> {
    let comparison = call(&["=", "<>", "<", "<=", ">", ">="]);
    let boolean = |kind| Expr::new(kind, TypeOid::BOOL, -1);
    let simple = Union::new([comparison, any_of_array(), leaf(TypeOid::BOOL)]);
    simple
        .prop_recursive(3, 12, 3, move |part| {
            prop_oneof![
                proptest::collection::vec(part.clone(), 1..4)
                    .prop_map(move |parts| boolean(ExprKind::And(parts))),
                proptest::collection::vec(part.clone(), 1..4)
                    .prop_map(move |parts| boolean(ExprKind::Or(parts))),
                part.clone().prop_map(move |part| boolean(ExprKind::Not(Box::new(part)))),
                (part.clone(), any::<bool>()).prop_map(move |(argument, negated)| boolean(
                    ExprKind::IsNull { argument: Box::new(argument), negated }
                )),
                (part.clone(), part.clone(), part).prop_map(move |(when, then, other)| boolean(
                    ExprKind::Case {
                        operand: None,
                        branches: vec![(when, then)],
                        default: Some(Box::new(other)),
                    }
                )),
            ]
        })
        .boxed()
}

fn rows() -> impl Strategy<Value = Vec<Vec<Datum>>> {
    let row: Vec<BoxedStrategy<Datum>> =
        SLOTS.iter().flat_map(|oid| [value(*oid), value(*oid)]).collect();
    proptest::collection::vec(row, 1..12)
}

fn batch_of(rows: &[Vec<Datum>]) -> Batch {
    let columns = (0..SLOTS.len() * 2).map(|slot| {
        let mut vector = Vector::for_type(SLOTS[slot / 2]);
        rows.iter().for_each(|row| vector.push(&row[slot]));
        vector
    });
    Batch { rows: rows.len(), columns: columns.collect() }
}

fn with_runtime<T>(run: impl FnOnce(&mut Runtime<'_, '_>) -> T) -> T {
    with_context(|exec| {
        let mut state = State::default();
        run(&mut Runtime { exec, params: &[], state: &mut state })
    })
}

fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Numeric(a), Datum::Numeric(b)) => a.to_string() == b.to_string(),
        (Datum::Float8(a), Datum::Float8(b)) => {
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
        }
        (Datum::Null, Datum::Null) => true,
        (a, b) => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
                && niwaki_types::equal(TypeOid::TEXT, a, b)
        }
    }
}

fn check(expr: &Expr, rows: &[Vec<Datum>], picked: &[u32]) -> Result<(), TestCaseError> {
    with_runtime(|rt| {
        let batch = batch_of(rows);
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        for (asked, numbers) in
            [(Rows::All(rows.len()), all.as_slice()), (Rows::Some(picked), picked)]
        {
            let one_by_one: Vec<_> =
                numbers.iter().map(|row| expr.eval(&rows[*row as usize], rt)).collect();
            match expr.eval_rows(&batch, asked, rt) {
                Ok(values) => {
                    for (at, one) in one_by_one.iter().enumerate() {
                        let one = one
                            .as_ref()
                            .map_err(|error| TestCaseError::fail(format!("{error:?} of a row")))?;
                        prop_assert!(
                            same(&values.get(at), one),
                            "{:?} and alone {one:?}",
                            values.get(at)
                        );
                        prop_assert_eq!(values.is_null(at), one.is_null());
                    }
                }
                Err(error) => {
                    let alone = one_by_one.into_iter().find_map(Result::err);
                    prop_assert!(
                        alone.is_some_and(|alone| alone.sqlstate == error.sqlstate),
                        "{error:?} of no row alone"
                    );
                }
            }
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn conditions_hold_for_the_rows_for_which_they_hold_alone(
        condition in condition(),
        rows in rows(),
        picks in any::<u16>(),
    ) {
        let picked: Vec<u32> = (0..rows.len() as u32).filter(|row| picks >> row & 1 == 1).collect();
        check(&condition, &rows, &picked)?;
        with_runtime(|rt| {
            let mut kept = vec![77];
            condition.select(&batch_of(&rows), Rows::Some(&picked), &mut kept, rt).expect("no comparison fails");
            let alone: Vec<u32> = picked
                .iter()
                .copied()
                .filter(|row| condition.holds(&rows[*row as usize], rt).expect("no comparison fails"))
                .collect();
            prop_assert_eq!(kept, alone);
            Ok(())
        })?;
    }

    #[test]
    fn arithmetic_is_that_of_each_row(
        expr in call(&["+", "-", "*", "/"]),
        rows in rows(),
        picks in any::<u16>(),
    ) {
        let picked: Vec<u32> = (0..rows.len() as u32).filter(|row| picks >> row & 1 == 1).collect();
        check(&expr, &rows, &picked)?;
    }
}

/// Tests that a part which would fail for a row is not evaluated if an earlier part has decided
/// that row.
#[test]
fn what_is_decided_is_not_evaluated() {
    let int = |value: i32| Expr::constant(Datum::Int4(value), TypeOid::INT4, -1);
    let operator = |name: &str| {
        let same = |f: &&&'static Function| f.arguments == [TypeOid::INT4, TypeOid::INT4];
        *operators_named(name).iter().find(same).expect("there is one")
    };
    let call = |name: &str, left, right| {
        let function = operator(name);
        super::call(function, vec![left, right], function.result, -1)
    };
    let slot = || Expr::slot(2, TypeOid::INT4.into());
    let not_zero = || call("<>", slot(), int(0));
    let quotient = || call("/", int(10), slot());
    let large = || call(">", quotient(), int(2));
    let mut rows = vec![vec![Datum::Null; SLOTS.len() * 2]; 4];
    for (row, value) in rows.iter_mut().zip([0, 1, 5, 2]) {
        row[2] = Datum::Int4(value);
    }
    let batch = batch_of(&rows);
    with_runtime(|rt| {
        let both = Expr::new(ExprKind::And(vec![not_zero(), large()]), TypeOid::BOOL, -1);
        let mut kept = Vec::new();
        both.select(&batch, Rows::All(4), &mut kept, rt).expect("nothing is divided by zero");
        assert_eq!(kept, [1, 3]);
        let case = Expr::new(
            ExprKind::Case {
                operand: None,
                branches: vec![(not_zero(), quotient())],
                default: None,
            },
            TypeOid::INT4,
            -1,
        );
        let values = case.eval_rows(&batch, Rows::All(4), rt).expect("nothing is divided by zero");
        let shown: Vec<Datum> = (0..4).map(|at| values.get(at)).collect();
        assert!(matches!(
            shown.as_slice(),
            [Datum::Null, Datum::Int4(10), Datum::Int4(2), Datum::Int4(5)]
        ));
        assert_eq!(quotient().eval_rows(&batch, Rows::All(4), rt).unwrap_err().sqlstate, "22012");
    });
}
