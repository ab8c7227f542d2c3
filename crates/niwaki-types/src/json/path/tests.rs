//! Laws of `jsonpath` text that the recorded answers cannot show.

use proptest::prelude::*;

use super::JsonPath;

/// Makes texts; many of them are paths.
fn any_text() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("$"),
        Just("@"),
        Just("."),
        Just("a"),
        Just("\"b c\""),
        Just("["),
        Just("]"),
        Just("*"),
        Just("**"),
        Just("{1 to last}"),
        Just("("),
        Just(")"),
        Just("?("),
        Just("1"),
        Just("0.5e-1"),
        Just("+"),
        Just("-"),
        Just("/"),
        Just("=="),
        Just("<"),
        Just("&&"),
        Just("||"),
        Just("!"),
        Just(" is unknown"),
        Just("exists ("),
        Just("last"),
        Just(" to "),
        Just(","),
        Just("size()"),
        Just("$x"),
        Just(" like_regex \"^a\" flag \"i\""),
        Just(" starts with "),
        Just("\\u0041"),
        Just("null"),
        Just("strict "),
        Just("/* */"),
        Just("é"),
    ];
    proptest::collection::vec(token, 1..12).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(text in any_text()) {
        if let Ok(path) = JsonPath::parse(&text) {
            let shown = path.to_string();
            let again = JsonPath::parse(&shown).map(|path| path.to_string());
            prop_assert_eq!(again.as_deref(), Ok(shown.as_str()), "{}", text);
        }
    }

    #[test]
    fn any_text_is_answered(text in "[ -~é😄]{0,24}") {
        let _ = JsonPath::parse(&text);
    }
}

#[test]
fn deep_texts_are_refused() {
    for deep in [
        format!("{}$", "(".repeat(100_000)),
        format!("{}1", "-+".repeat(100_000)),
        format!("${}", ".a".repeat(100_000)),
        format!("${}", "[$".repeat(100_000)),
        format!("1{}", " + 1".repeat(100_000)),
        format!("$ ? (1 < 2{})", " && 1 < 2".repeat(100_000)),
        format!("${}", " ? (@".repeat(100_000)),
    ] {
        assert_eq!(JsonPath::parse(&deep).unwrap_err().sqlstate, "54001");
    }
    assert!(JsonPath::parse(&format!("${}", ".a".repeat(200))).is_ok());
}
