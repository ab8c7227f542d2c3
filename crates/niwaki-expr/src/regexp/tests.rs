//! Checks properties of all expressions; `testscripts/regexp.test` has the results of single ones.

use super::*;

fn find(pattern: &str, text: &str) -> Option<(usize, usize)> {
    let expression = Expression::new(pattern, &Options::default()).unwrap();
    expression.find(text, 0).unwrap().map(|found| (found.start, found.end))
}

#[test]
fn greed_is_of_the_whole_expression() {
    assert_eq!(find("a|ab", "xabc"), Some((1, 3)));
    assert_eq!(find("a+?b*", "aab"), Some((0, 1)));
    assert_eq!(find("(?:a|ab){1,1}?", "ab"), Some((0, 1)));
}

#[test]
fn back_references_are_looked_at() {
    assert_eq!(find(r"(a*)b\1", "aaba"), Some((1, 4)));
    assert_eq!(find(r"(a|b)\1", "abba"), Some((1, 3)));
    assert_eq!(find(r"(a)\1{2,3}$", "aaaaa"), Some((1, 5)));
}

#[test]
fn assertions_look_around() {
    assert_eq!(find("a(?=b)", "aab"), Some((1, 2)));
    assert_eq!(find("a(?!b)", "aba"), Some((2, 3)));
    assert_eq!(find("(?<=b)a", "aba"), Some((2, 3)));
    assert_eq!(find("(?<!b)a", "ba a"), Some((3, 4)));
}

#[test]
fn errors_say_what_is_wrong() {
    for (pattern, reason) in [
        ("(a", "parentheses () not balanced"),
        ("a)", "parentheses () not balanced"),
        ("[a", "brackets [] not balanced"),
        ("*a", "quantifier operand invalid"),
        ("a{2,1}", "invalid repetition count(s)"),
        ("a{256}", "invalid repetition count(s)"),
        ("a\\", "invalid escape \\ sequence"),
        ("\\1", "invalid backreference number"),
        ("[b-a]", "invalid character range"),
        ("[[:no:]]", "invalid character class"),
    ] {
        let error = Expression::new(pattern, &Options::default()).unwrap_err();
        assert_eq!(error.sqlstate, "2201B");
        assert_eq!(error.message, format!("invalid regular expression: {reason}"), "{pattern}");
    }
}

/// Returns expressions of up to `size` parts over a small alphabet.
fn expressions(size: usize) -> Vec<String> {
    if size == 0 {
        return ["a", "b", "ab", "[^a]", ".", "(a|ab)", "$"].map(str::to_owned).to_vec();
    }
    let mut all = Vec::new();
    let below = expressions(size - 1);
    for (number, one) in below.iter().enumerate() {
        let other = &below[(number * 7 + 3) % below.len()];
        all.push(format!("(?:{one})*{other}"));
        all.push(format!("({one}|{other})"));
        all.push(format!("(?:{one})??({other})"));
        all.push(format!("{one}{other}"));
    }
    all
}

/// Checks that the `regex` crate and the automaton agree on matches and their places, and that
/// groups lie within the match.
#[test]
fn the_library_and_the_automaton_agree() {
    let texts = ["", "a", "b", "ab", "ba", "aab", "abab", "bbaab", "cabca"];
    let mut count = 0;
    for pattern in expressions(2).into_iter().chain(expressions(1)) {
        let with = Expression::new(&pattern, &Options::default()).unwrap();
        let mut without = Expression::new(&pattern, &Options::default()).unwrap();
        assert!(with.finder.is_some(), "{pattern}");
        without.finder = None;
        for text in texts {
            let found = with.find(text, 0).unwrap();
            assert_eq!(found, without.find(text, 0).unwrap(), "{pattern} in {text}");
            assert_eq!(with.is_match(text).unwrap(), found.is_some(), "{pattern} in {text}");
            count += 1;
            let Some(found) = found else { continue };
            for (start, end) in found.groups.iter().flatten() {
                assert!(found.start <= *start && start <= end && *end <= found.end, "{pattern}");
            }
        }
    }
    assert!(count > 1000);
}

/// Checks that every expression is compiled or refused, and that matching ends.
#[test]
fn any_expression_is_survived() {
    const PIECES: [&str; 40] = [
        "a",
        "b",
        "ab",
        "(",
        ")",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "|",
        "*",
        "+",
        "?",
        "*?",
        "{2}",
        "{0}",
        "{1,2}",
        "{,",
        "[",
        "]",
        "[^",
        "[a-b]",
        "[[:alpha:]]",
        "-",
        "^",
        "$",
        ".",
        "\\",
        "\\1",
        "\\2",
        "\\d",
        "\\m",
        "\\y",
        "\\x61",
        "\\q",
        "é",
        " ",
        "(a)",
        "(b|a)",
    ];
    // A linear congruential generator: the same expressions every time.
    let mut state = 1u64;
    let mut next = |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    let mut compiled = 0;
    for _ in 0..20_000 {
        let pattern: String = (0..=next(9)).map(|_| PIECES[next(PIECES.len())]).collect();
        let options =
            Options { fold: next(4) == 0, newline_stops: next(4) == 0, ..Options::default() };
        let expression = match Expression::new(&pattern, &options) {
            Ok(expression) => expression,
            Err(error) => {
                assert_eq!(error.sqlstate, "2201B", "{pattern}: {}", error.message);
                continue;
            }
        };
        compiled += 1;
        for text in ["", "a", "abab", "bé a", "aab\nb"] {
            let found = expression.find(text, 0).unwrap();
            assert_eq!(expression.is_match(text).unwrap(), found.is_some(), "{pattern} in {text}");
            let mut count = 0;
            expression
                .find_all(text, 0, false, |found| {
                    assert!(text.get(found.start..found.end).is_some(), "{pattern} in {text}");
                    for (start, end) in found.groups.iter().flatten() {
                        assert!(text.get(*start..*end).is_some(), "{pattern} in {text}");
                    }
                    count += 1;
                    true
                })
                .unwrap();
            assert!(count <= text.len() + 1, "{pattern} in {text}");
        }
    }
    assert!(compiled > 3_000, "{compiled}");
}

#[test]
fn size_is_bounded() {
    for pattern in [
        "(((a{200}){200}){200})",
        &"(a)".repeat(3_000),
        &"(".repeat(100_000),
        &"a".repeat(PATTERN_BYTES_MAX + 1),
    ] {
        let error = Expression::new(pattern, &Options::default()).unwrap_err();
        assert_eq!(error.sqlstate, "2201B");
    }
    let backward = format!("(a*)*{}$", "\\1".repeat(3));
    let expression = Expression::new(&backward, &Options::default()).unwrap();
    assert!(expression.is_match(&"a".repeat(30)).unwrap());
}
