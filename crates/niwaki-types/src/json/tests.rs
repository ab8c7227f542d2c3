//! Laws of JSON values that the recorded answers cannot show.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::Datum;
use crate::numeric::tests::any_numeric;

/// Makes strings; many are equal, and some need escapes.
fn any_string() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{0,2}", 1 => "[ -~]{0,12}", 1 => "[\\x01-\\x1f\"\\\\/é😄]{0,4}", 1 => "[a-z]{25,300}"]
}

/// Makes a value of type `jsonb`; close values and parts of each other are frequent.
pub(crate) fn any_jsonb() -> impl Strategy<Value = Arc<Jsonb>> {
    let number = any_numeric().prop_filter("JSON has no such number", crate::Numeric::is_finite);
    let leaf = prop_oneof![
        Just(Jsonb::Null),
        any::<bool>().prop_map(Jsonb::Bool),
        (-2..3i32).prop_map(|value| Jsonb::Number(value.into())),
        number.prop_map(Jsonb::Number),
        any_string().prop_map(|text| Jsonb::string(&text)),
    ]
    .prop_map(Arc::new);
    leaf.prop_recursive(4, 24, 4, |part| {
        prop_oneof![
            proptest::collection::vec(part.clone(), 0..4).prop_map(Jsonb::array),
            proptest::collection::vec((any_string(), part), 0..4).prop_map(|pairs| {
                Jsonb::object(pairs.into_iter().map(|(key, v)| (key.into(), v)).collect())
            }),
        ]
        .prop_map(|value| Arc::new(value.expect("a few levels")))
    })
}

/// Makes a JSON text, with blanks here and there, and keys that may be there twice.
pub(crate) fn any_json_text() -> impl Strategy<Value = String> {
    (any_jsonb(), any_jsonb(), "[ \\n\\t]{0,2}").prop_map(|(a, b, blanks)| {
        format!("{blanks}{{\"a\":{blanks}{a}, \"a\"{blanks}:[{b},{a}]}}{blanks}")
    })
}

fn hash_of(value: &Jsonb) -> u64 {
    let mut state = DefaultHasher::new();
    value.hash_into(&mut state);
    state.finish()
}

fn stored(value: &Jsonb) -> Vec<u8> {
    let mut out = Vec::new();
    value.write_stored(&mut out);
    out
}

fn parsed(text: &str) -> Arc<Jsonb> {
    Jsonb::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn text_and_stored_form_come_back(value in any_jsonb()) {
        let text = value.to_string();
        prop_assert_eq!(parsed(&text).to_string(), text.clone());
        let mut pretty = Vec::new();
        value.write_pretty(&mut pretty);
        let pretty = String::from_utf8(pretty).expect("text");
        prop_assert_eq!(parsed(&pretty).to_string(), text.clone());
        let bytes = stored(&value);
        prop_assert_eq!(Jsonb::from_stored(&bytes).expect("own bytes").to_string(), text);
        prop_assert!(Jsonb::from_stored(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn the_order_is_total_and_agrees_with_equality_and_hash(
        a in any_jsonb(), b in any_jsonb(), c in any_jsonb(),
    ) {
        prop_assert_eq!(a.compare(&a), Ordering::Equal);
        prop_assert_eq!(a.compare(&b), b.compare(&a).reverse());
        if a.compare(&b).is_le() && b.compare(&c).is_le() {
            prop_assert!(a.compare(&c).is_le());
        }
        if a == b {
            prop_assert_eq!(hash_of(&a), hash_of(&b));
            prop_assert!(a.contains(&b) && b.contains(&a));
        }
    }

    #[test]
    fn any_bytes_are_a_value_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(value) = Jsonb::from_stored(&bytes) {
            prop_assert_eq!(Jsonb::from_stored(&stored(&value)).expect("own bytes"), value);
        }
    }

    #[test]
    fn a_text_says_the_same_as_json_and_as_jsonb(text in any_json_text()) {
        let value = parsed(&text);
        let raw = RawJson::parse(&text).expect("JSON");
        prop_assert_eq!(json_shape(&text).expect("JSON").name(), value.type_name());
        prop_assert_eq!(raw.text, text.trim());
        for path in [&["a"][..], &["a", "0"], &["a", "-1"], &["b"], &["a", "9"], &["a", "0", "a"]] {
            let part = Jsonb::at_path(&value, path);
            let raw = raw.at_path(path);
            prop_assert_eq!(raw.map(|raw| parsed(raw.text)), part.cloned());
            let strings = matches!(part.map(|part| &**part), Some(Jsonb::String(_)));
            prop_assert!(
                !strings || raw.and_then(RawJson::unquoted).map(str::to_owned)
                    == part.and_then(|part| part.unquoted())
            );
        }
        let mut stripped = Vec::new();
        raw.write_without_nulls(&mut stripped);
        let stripped = String::from_utf8(stripped).expect("text");
        // If a key is there twice, jsonb keeps one pair before nulls are removed.
        let last = Jsonb::without_nulls(&value).expect("fewer parts");
        prop_assert_eq!(parsed(&stripped), last);
    }

    #[test]
    fn changes_do_what_they_say(
        value in any_jsonb(), new in any_jsonb(), step in prop_oneof!["[ab]{0,2}", "-?[0-3]"],
    ) {
        let path = [Some(step.as_str())];
        let change = |change| Jsonb::change(&value, &path, &change);
        match change(PathChange::Set(Arc::clone(&new))) {
            Ok(changed) => {
                let text = changed.to_string();
                let found = Jsonb::at_path(&changed, &[&step]).map(|part| part.to_string());
                let beyond = matches!(&*value, Jsonb::Array(_));
                prop_assert!(beyond || found == Some(new.to_string()), "{}", text);
                prop_assert_eq!(parsed(&text).to_string(), text);
            }
            Err(error) => {
                let array = matches!(&*value, Jsonb::Array(_)) && path_index(&step).is_none();
                prop_assert_eq!(error.sqlstate, if array { "22P02" } else { "22023" });
            }
        }
        if let Ok(gone) = change(PathChange::Delete) {
            prop_assert!(gone.to_string().len() <= value.to_string().len());
        }
        if let Ok(same) = change(PathChange::Replace(new))
            && Jsonb::at_path(&value, &[&step]).is_none()
        {
            prop_assert_eq!(same, value);
        }
    }
}

#[test]
fn nesting_is_bounded_not_fatal() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let most = usize::from(JSON_DEPTH_MAX);
    let deepest = parsed(&nested(most));
    assert_eq!(deepest.to_string(), nested(most));
    assert_eq!(Jsonb::from_stored(&stored(&deepest)).expect("own bytes"), deepest);
    let over =
        [Jsonb::array(vec![Arc::clone(&deepest)]), Jsonb::object(vec![("".into(), deepest)])];
    assert!(over.into_iter().all(|over| over.is_err_and(|error| error.sqlstate == "54001")));
    for levels in [most + 1, 1_000_000] {
        for text in [nested(levels), "{\"a\":".repeat(levels)] {
            assert_eq!(Jsonb::parse(&text).expect_err("too deep").sqlstate, "54001");
            assert_eq!(json_shape(&text).expect_err("too deep").sqlstate, "54001");
            assert_eq!(RawJson::parse(&text).expect_err("too deep").sqlstate, "54001");
        }
        // The bytes claim nested arrays of one item each.
        let bytes = vec![5 << 5 | 1; levels];
        assert_eq!(Jsonb::from_stored(&bytes).expect_err("damage").sqlstate, "XX001");
    }
}

#[test]
fn an_error_says_where() {
    let context = |text: &str| match Jsonb::parse(text) {
        Ok(value) => panic!("{value}"),
        Err(error) => error.context.unwrap_or_default().into_string(),
    };
    assert_eq!(context("{\"a\":\n 1,\n x}"), "JSON data, line 3:  x...");
    assert_eq!(context(""), "JSON data, line 1: ");
    let long = format!("[\"{}\", é, x y]", "é".repeat(40));
    assert!(context(&long).starts_with("JSON data, line 1: ...é"));
}

#[test]
fn a_datum_is_no_larger_for_it() {
    assert_eq!(size_of::<Datum>(), 24);
}
