use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// Returns PostgreSQL's output for the operation, in the form of the data file.
fn outcome(operation: &str, a: &str, b: &str) -> String {
    let render = |result: Result<String>| match result {
        Ok(text) => text,
        Err(error) => {
            let detail = error.detail.map(|detail| format!(" [{detail}]")).unwrap_or_default();
            format!("!{} {}{detail}", error.sqlstate, error.message)
        }
    };
    let number = |text: &str| Numeric::parse(text);
    let text = |value: Numeric| value.to_string();
    render((|| -> Result<String> {
        match operation {
            "in" => return number(a).map(text),
            "from_float8" => {
                return Ok(Numeric::from_f64(a.parse().expect("a float8")).to_string());
            }
            "from_float4" => {
                return Ok(Numeric::from_f32(a.parse().expect("a float4")).to_string());
            }
            _ => {}
        }
        let x = number(a)?;
        let shown = |value: f64| {
            let mut out = Vec::new();
            crate::write_float8(value, 1, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        let small = |value: f32| {
            let mut out = Vec::new();
            crate::write_float4(value, 1, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        Ok(match operation {
            "add" => x.add(&number(b)?)?.to_string(),
            "sub" => x.sub(&number(b)?)?.to_string(),
            "mul" => x.mul(&number(b)?)?.to_string(),
            "div" => x.div(&number(b)?)?.to_string(),
            "mod" => x.rem(&number(b)?)?.to_string(),
            "div_trunc" => x.div_trunc(&number(b)?)?.to_string(),
            "power" => x.power(&number(b)?)?.to_string(),
            "log" => number(b)?.log(&x)?.to_string(),
            "cmp" => (x.cmp(&number(b)?) as i8).to_string(),
            "round" => x.round(b.parse().expect("digits"))?.to_string(),
            "trunc" => x.trunc(b.parse().expect("digits"))?.to_string(),
            "ceil" => x.ceil()?.to_string(),
            "floor" => x.floor()?.to_string(),
            "abs" => x.abs().to_string(),
            "sign" => x.sign().to_string(),
            "sqrt" => x.sqrt()?.to_string(),
            "exp" => x.exp()?.to_string(),
            "ln" => x.ln()?.to_string(),
            "int2" => x.to_i16()?.to_string(),
            "int4" => x.to_i32()?.to_string(),
            "int8" => x.to_i64()?.to_string(),
            "float8" => shown(x.to_f64()?),
            "float4" => small(x.to_f32()?),
            "typmod" => {
                let (precision, scale) = b.split_once(',').expect("precision and scale");
                let number = |text: &str| text.parse().expect("a number");
                x.apply_typmod(numeric_typmod(number(precision), number(scale))?)?.to_string()
            }
            "factorial" => Numeric::factorial(a.parse().expect("a whole number"))?.to_string(),
            "gcd" => x.gcd(&number(b)?)?.to_string(),
            "lcm" => x.lcm(&number(b)?)?.to_string(),
            "min_scale" => x.min_scale().map_or("NULL".to_owned(), |scale| scale.to_string()),
            "trim_scale" => x.trim_scale()?.to_string(),
            "send" => {
                let mut out = Vec::new();
                x.write_wire(&mut out);
                assert_eq!(Numeric::from_wire(&out)?.to_string(), a_shown(&x), "{a} read back");
                out.iter().map(|byte| format!("{byte:02x}")).collect()
            }
            other => panic!("unknown operation {other}"),
        })
    })())
}

fn a_shown(value: &Numeric) -> String {
    value.to_string()
}

#[test]
fn results_are_those_of_postgresql() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../../testdata/numeric.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [operation, a, b, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line of four fields: {line}");
        };
        count += 1;
        let mut found = outcome(operation, a, b);
        // Very long results are kept as their length and beginning.
        if found.len() > 3000 {
            found = format!("#{}:{}", found.len(), &found[..40]);
        }
        if found != expected {
            wrong.push(format!("{operation}({a}, {b}): {found}, not {expected}"));
        }
    }
    assert!(count > 1000, "the data file is there");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn hash_of(value: &Numeric) -> u64 {
    let mut state = DefaultHasher::new();
    value.hash(&mut state);
    state.finish()
}

/// Makes numbers with and without fractions, in and beyond 127 bits, and the special values.
pub(crate) fn any_numeric() -> impl Strategy<Value = Numeric> {
    let finite =
        ("[0-9]{1,60}", 0usize..30, any::<bool>()).prop_map(|(digits, scale, negative)| {
            let cut = digits.len().saturating_sub(scale);
            let sign = if negative { "-" } else { "" };
            let text = format!("{sign}{}.{}", &digits[..cut], &digits[cut..]);
            Numeric::parse(&text).expect("digits and a point")
        });
    let small =
        (any::<i16>(), 0u16..5).prop_map(|(value, scale)| Numeric::new(value.into(), scale));
    prop_oneof![
        4 => small,
        4 => finite,
        1 => Just(Numeric::NAN),
        1 => Just(Numeric::INFINITY),
        1 => Just(Numeric::NEGATIVE_INFINITY),
        1 => Just(Numeric::new(i128::MIN, 3)),
        1 => Just(Numeric::new(i128::MAX, 0)),
    ]
}

#[test]
fn digits_are_counted_at_powers_of_ten_and_of_two() {
    for exponent in (1..700).chain([16_383, 40_000, 131_071]) {
        let power = big_power(exponent);
        assert_eq!(big_digits(&power), exponent + 1, "10^{exponent}");
        assert_eq!(big_digits(&(&power - 1)), exponent, "10^{exponent} - 1");
    }
    for bits in (1..3_000).chain([54_427, 435_411]) {
        let (least, most) = digits_between(bits);
        assert!(least <= most && most - least <= 1, "{bits} bits: {least} to {most} digits");
    }
}

#[test]
fn long_numbers_of_different_scales_compare() {
    let number = |text: String| Numeric::parse(&text).expect("a number");
    let whole = number(format!("1{}", "0".repeat(60)));
    let same = number(format!("1{}.000", "0".repeat(60)));
    let above = number(format!("1{}.001", "0".repeat(60)));
    assert_eq!(whole.cmp(&same), Ordering::Equal);
    assert_eq!(whole.cmp(&above), Ordering::Less);
    assert_eq!(whole.neg().cmp(&above.neg()), Ordering::Greater);
    let small = number(format!("0.{}1", "0".repeat(50)));
    assert_eq!(small.cmp(&whole), Ordering::Less);
    assert_eq!(whole.neg().cmp(&small), Ordering::Less);
}

/// A statement that ended while a long number was read found damage in its table; a `float8` became
/// `NaN`, and a logarithm got another scale.
#[test]
fn the_end_of_a_statement_is_no_damage_and_changes_no_value() {
    let refuses: work::Asker = Arc::new(|| Err(TypeError::new("57014", "cancelled")));
    let long = Numeric::parse(&"7".repeat(60)).expect("a number");
    let mut stored = Vec::new();
    long.write_stored(&mut stored);
    let near_one = Numeric::parse(&format!("1.{}1", "0".repeat(49))).expect("a number");
    let base = Numeric::parse(&format!("1.0{}", "5".repeat(40))).expect("a number");
    let logarithm = near_one.log(&base).expect("a logarithm").to_string();
    let _asking = work::asking(Some(refuses));
    // Work beyond these units asks whether the statement goes on.
    let leave = |units: usize| {
        assert!(work::tick(usize::MAX).is_err());
        work::tick(work::UNITS - units).expect("as many were left");
    };
    leave(0);
    assert!(Numeric::from_stored(&stored).expect("no damage").same_image(&long));
    assert_eq!(Numeric::from_f64(-1e300).to_string(), format!("-1{}", "0".repeat(300)));
    assert_eq!(Numeric::parse(&"7".repeat(60)).expect_err("cancelled").sqlstate, "57014");
    for units in 0..32 {
        leave(units);
        match near_one.log(&base) {
            Ok(same) => assert_eq!(same.to_string(), logarithm),
            Err(error) => assert_eq!(error.sqlstate, "57014"),
        }
    }
}

proptest! {
    #[test]
    fn images_read_back(value in any_numeric()) {
        let same = |other: &Numeric| {
            value == *other && value.scale() == other.scale() && value.to_string() == other.to_string()
        };
        prop_assert!(same(&Numeric::parse(&value.to_string()).expect("own text")));
        let mut wire = Vec::new();
        value.write_wire(&mut wire);
        prop_assert!(same(&Numeric::from_wire(&wire).expect("own wire format")));
        let mut stored = Vec::new();
        value.write_stored(&mut stored);
        prop_assert!(same(&Numeric::from_stored(&stored).expect("own stored form")));
    }

    #[test]
    fn equal_numbers_hash_alike_at_any_scale(value in any_numeric(), more in 0u16..50) {
        let longer = value.round(i32::from(value.scale() + more)).expect("few digits");
        prop_assert_eq!(&value, &longer);
        prop_assert_eq!(hash_of(&value), hash_of(&longer));
    }

    #[test]
    fn order_agrees_with_subtraction(a in any_numeric(), b in any_numeric()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a.is_finite() && b.is_finite() {
            let difference = a.sub(&b).expect("few digits");
            let expected = if difference.is_zero() {
                Ordering::Equal
            } else if difference.is_negative() {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            prop_assert_eq!(a.cmp(&b), expected);
        }
    }

    #[test]
    fn quotient_and_remainder_make_the_dividend(a in any_numeric(), b in any_numeric()) {
        if !a.is_finite() || !b.is_finite() || b.is_zero() {
            return Ok(());
        }
        let whole = a.div_trunc(&b).expect("not zero").mul(&b).expect("few digits");
        let rest = a.rem(&b).expect("not zero");
        prop_assert_eq!(whole.add(&rest).expect("few digits"), a);
        prop_assert!(rest.abs() < b.abs());
    }

    #[test]
    fn any_bytes_are_a_number_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        // Every accepted value must have a text that reads back: it is a real number.
        for read in [Numeric::from_wire(&bytes), Numeric::from_stored(&bytes)].into_iter().flatten() {
            prop_assert_eq!(Numeric::parse(&read.to_string()).expect("own text"), read);
        }
    }
}
