//! Laws of parts, joins and assignments.
#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]

use proptest::prelude::*;

use super::*;
use crate::test_values::value_of;

/// Makes arrays of integers in up to three dimensions.
fn arrays() -> impl Strategy<Value = Arc<Array>> {
    value_of(TypeOid::INT4_ARRAY).prop_map(|value| match value {
        Datum::Array(_, array) => array,
        other => panic!("an array: {other:?}"),
    })
}

/// Returns all subscripts of an array, in the order of its elements.
fn subscripts(dimensions: &[Dimension]) -> Vec<Vec<i32>> {
    let Some((first, rest)) = dimensions.split_first() else { return vec![Vec::new()] };
    let inner = subscripts(rest);
    (first.lower..=first.upper())
        .flat_map(|at| inner.iter().map(move |inner| [&[at], inner.as_slice()].concat()))
        .collect()
}

fn same(a: &Array, b: &Array) -> bool {
    a.compare(TypeOid::INT4, b).is_eq()
}

proptest! {
    #[test]
    fn subscripts_name_the_elements_in_order(array in arrays()) {
        let places = if array.is_empty() { Vec::new() } else { subscripts(array.dimensions()) };
        let named = places.iter().map(|at| array.element(at).expect("an element"));
        let named: Vec<&Datum> = named.collect();
        prop_assert_eq!(named.len(), array.len());
        for (a, b) in named.into_iter().zip(array.iter()) {
            prop_assert!(std::ptr::eq(a, b));
        }
    }

    #[test]
    fn a_slice_has_what_its_subscripts_name(
        array in arrays(),
        bounds in proptest::collection::vec((-2..4i32, 0..4i32), 1..3),
    ) {
        let given: Vec<Bounds> = bounds
            .iter()
            .map(|(lower, length)| Bounds { lower: Some(*lower), upper: Some(lower + length - 1) })
            .collect();
        let inside = |at: &Vec<i32>| {
            at.iter().zip(&bounds).all(|(at, (lower, length))| (*lower..lower + length).contains(at))
        };
        let fits = bounds.len() <= array.dimensions().len();
        let places = if fits { subscripts(array.dimensions()) } else { Vec::new() };
        let wanted: Vec<i32> = places
            .iter()
            .enumerate()
            .filter(|(_, at)| inside(at))
            .map(|(place, _)| i32::try_from(place).expect("few"))
            .collect();
        // Numbered elements show which ones a slice took.
        let numbers = (0..array.len()).map(|n| Datum::Int4(i32::try_from(n).expect("few")));
        let slice = array.with_values(numbers.collect()).slice(&given);
        let found: Vec<i32> = slice
            .iter()
            .map(|value| if let Datum::Int4(value) = value { *value } else { -1 })
            .collect();
        prop_assert_eq!(found, wanted);
        prop_assert!(slice.dimensions().iter().all(|dimension| dimension.lower == 1));
    }

    #[test]
    fn an_element_that_was_assigned_is_there(array in arrays(), place in any::<prop::sample::Index>()) {
        if array.is_empty() {
            return Ok(());
        }
        let all = subscripts(array.dimensions());
        let at = place.get(&all);
        let changed = array.with_assigned(at, Datum::Int4(4711)).expect("a place inside");
        prop_assert_eq!(changed.dimensions(), array.dimensions());
        for other in &all {
            let (old, new) = (array.element(other).expect("one"), changed.element(other).expect("one"));
            let wanted = if other == at { &Datum::Int4(4711) } else { old };
            prop_assert!(crate::equal(TypeOid::INT4, wanted, new));
        }
    }

    #[test]
    fn a_slice_assigned_to_itself_changes_nothing(array in arrays()) {
        let bounds: Vec<Bounds> = array
            .dimensions()
            .iter()
            .map(|dimension| Bounds { lower: Some(dimension.lower), upper: Some(dimension.upper()) })
            .collect();
        let again = array.with_slice_assigned(&bounds, &array).expect("its own elements");
        prop_assert!(same(&again, &array));
    }

    #[test]
    fn halves_make_the_whole(array in arrays()) {
        let Some(first) = array.dimensions().first().copied().filter(|first| first.length > 1) else {
            return Ok(());
        };
        let all = array.slice(&[Bounds::default()]);
        let first = all.slice(&[Bounds { lower: None, upper: Some(i32::try_from(first.length - 1).expect("few")) }]);
        let last = all.slice(&[Bounds { lower: Some(all.dimensions()[0].upper()), upper: None }]);
        prop_assert!(same(&first.concat(&last).expect("alike"), &all));
    }
}
