//! Vectors return exactly the values that were put in.

use proptest::prelude::*;

use super::*;
use crate::test_values::{any_type, same_image, value_or_null};

fn filled(oid: TypeOid, values: &[Datum]) -> Vector {
    let mut vector = Vector::for_type(oid);
    for value in values {
        vector.push(value);
    }
    vector
}

fn same(a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => same_image(a, b),
        (a, b) => a == b,
    }
}

fn column() -> impl Strategy<Value = (TypeOid, Vec<Datum>)> {
    any_type()
        .prop_flat_map(|oid| (Just(oid), proptest::collection::vec(value_or_null(oid), 0..20)))
}

proptest! {
    #[test]
    fn values_come_back((oid, values) in column()) {
        let mut vector = filled(oid, &values);
        prop_assert_eq!(vector.len(), values.len());
        for (row, value) in values.iter().enumerate() {
            prop_assert!(same(&vector.get(row), value), "{:?} became {:?}", value, vector.get(row));
        }
        prop_assert!(vector.nulls().is_empty() || vector.nulls().len() == values.len());
        let told = Vector::from_values(&values);
        prop_assert!((0..values.len()).all(|row| same(&told.get(row), &values[row])));
        // A vector that is used again keeps nothing of its earlier values.
        vector.clear(oid);
        prop_assert!(vector.is_empty() && vector.nulls().is_empty());
        values.iter().rev().for_each(|value| vector.push(value));
        for (row, value) in values.iter().rev().enumerate() {
            prop_assert!(same(&vector.get(row), value));
        }
    }

    #[test]
    fn taken_values_are_those_of_their_rows(
        (oid, values) in column(),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        if values.is_empty() {
            return Ok(());
        }
        let rows: Vec<u32> = picks.iter().map(|pick| pick.index(values.len()) as u32).collect();
        let taken = filled(oid, &values).take(&rows);
        prop_assert_eq!(taken.len(), rows.len());
        for (at, row) in rows.iter().enumerate() {
            prop_assert!(same(&taken.get(at), &values[*row as usize]));
        }
    }

    #[test]
    fn keys_are_those_of_the_values((oid, values) in column(), descending in any::<bool>()) {
        let vector = filled(oid, &values);
        let order = KeyOrder { descending, ..KeyOrder::ascending(oid) };
        for (row, value) in values.iter().enumerate() {
            let (mut key, mut of_value) = (Vec::new(), Vec::new());
            vector.encode_key(row, order, &mut key);
            encode_key(value, order, &mut of_value);
            prop_assert_eq!(key, of_value);
        }
    }

    #[test]
    fn a_value_of_another_vector_is_that_value((oid, values) in column()) {
        let from = filled(oid, &values);
        let mut to = Vector::for_type(oid);
        for row in (0..values.len()).rev() {
            to.push_from(&from, row);
            prop_assert!(same(&to.get(to.len() - 1), &values[row]));
        }
    }

    #[test]
    fn the_last_value_can_be_replaced((oid, values) in column(), at in any::<prop::sample::Index>()) {
        if values.is_empty() {
            return Ok(());
        }
        let mut vector = filled(oid, &values);
        let new = &values[at.index(values.len())];
        vector.replace_last(new);
        prop_assert_eq!(vector.len(), values.len());
        prop_assert!(same(&vector.get(values.len() - 1), new));
        for (row, value) in values.iter().enumerate().take(values.len() - 1) {
            prop_assert!(same(&vector.get(row), value));
        }
    }
}

#[test]
fn numerics_stay_integers_while_they_have_one_scale() {
    let number = |text: &str| Datum::Numeric(Arc::new(Numeric::parse(text).expect("a number")));
    let prices = filled(TypeOid::NUMERIC, &[number("1.50"), Datum::Null, number("-20.07")]);
    let VectorData::Decimal(decimals) = prices.data() else { panic!("integers: {prices:?}") };
    assert_eq!((decimals.values(), decimals.scale()), (&[150, 0, -2007][..], 2));
    for odd in ["1.5", "NaN", "123456789012345678901234567890.12"] {
        let mixed = filled(TypeOid::NUMERIC, &[number("1.50"), number(odd), Datum::Null]);
        assert!(matches!(mixed.data(), VectorData::Any(_)), "{odd}");
        assert!(same(&mixed.get(0), &number("1.50")) && same(&mixed.get(1), &number(odd)));
        assert!(mixed.is_null(2) && !mixed.is_null(1));
    }
}
