//! Derived conditions: indexable conditions that follow from the conditions of a scan.
//!
//! An index can answer a derived condition where it cannot answer the original one.
//!
//! ```text
//! name LIKE 'ab%c'    name >= 'ab' AND name < 'ac'     LIKE still filters these rows
//! name LIKE 'ab'      name = 'ab'
//! done                done = true                      equivalent
//! NOT done            done = false
//! ```
//!
//! Text is ordered by its bytes, whatever the collation. So texts with a common prefix are
//! adjacent.

use niwaki_expr::expr::{BoolTest, Expr, ExprKind};
use niwaki_expr::plan::PathPlan;
use niwaki_expr::query::{conjunction, split_conjuncts};
use niwaki_functions::functions::compare_function;
use niwaki_types::{Datum, TypeOid};

use super::scan::Candidate;

/// A condition that follows from another one.
pub(super) struct Derived {
    /// Number of the other condition.
    of: usize,
    /// True if both conditions are equivalent.
    exact: bool,
}

/// Appends the derived conditions to `conditions`.
pub(super) fn derive(conditions: &mut Vec<Expr>) -> Vec<Derived> {
    let mut found = Vec::new();
    for number in 0..conditions.len() {
        let (parts, exact) = match boolean(&conditions[number]) {
            Some(same) => (vec![same], true),
            None => (pattern(&conditions[number]), false),
        };
        for part in parts {
            conditions.push(part);
            found.push(Derived { of: number, exact });
        }
    }
    found
}

/// Rewrites a path in terms of the `given` conditions. A given condition is covered if the path
/// covers an equivalent derived one. A derived condition that only follows from a given one needs
/// no recheck.
pub(super) fn settle(best: &mut Candidate, conditions: &[Expr], given: usize, derived: &[Derived]) {
    for (number, derived) in derived.iter().enumerate() {
        if derived.exact && best.covered.contains(&(given + number)) {
            best.covered.push(derived.of);
        }
    }
    if let PathPlan::Bitmap(bitmap) = &mut best.path
        && let Some(recheck) = bitmap.recheck.take()
    {
        let mut parts = Vec::new();
        split_conjuncts(recheck, &mut parts);
        let follows = |part: &Expr| {
            let mut lossy = conditions[given..].iter().zip(derived);
            lossy.any(|(condition, derived)| !derived.exact && condition.same(part))
        };
        parts.retain(|part| !follows(part));
        bitmap.recheck = conjunction(parts);
    }
}

fn compared(operator: &str, left: &Expr, value: Datum, kind: TypeOid) -> Option<Expr> {
    let function = compare_function(operator, kind)?;
    let arguments = vec![left.clone(), Expr::constant(value, kind, -1)];
    Some(Expr::new(ExprKind::Call { function, arguments }, TypeOid::BOOL, -1))
}

/// Rewrites a boolean column, its negation or its IS TRUE/IS FALSE test as a comparison with a
/// constant.
pub(super) fn boolean(condition: &Expr) -> Option<Expr> {
    let (column, value) = match &condition.kind {
        ExprKind::Slot { depth: 0, .. } => (condition, true),
        ExprKind::Not(inner) => (&**inner, false),
        ExprKind::BoolTest { argument, test: BoolTest::True } => (&**argument, true),
        ExprKind::BoolTest { argument, test: BoolTest::False } => (&**argument, false),
        _ => return None,
    };
    match column.kind {
        ExprKind::Slot { depth: 0, .. } => compared("=", column, Datum::Bool(value), TypeOid::BOOL),
        _ => None,
    }
}

/// Returns the range conditions that every text matching the LIKE pattern satisfies.
pub(super) fn pattern(condition: &Expr) -> Vec<Expr> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return Vec::new() };
    let [text, pattern] = arguments.as_slice() else { return Vec::new() };
    let (is_like, is_text) = (function.name == "~~", [TypeOid::TEXT, TypeOid::VARCHAR]);
    let ExprKind::Const(Datum::Text(pattern)) = &pattern.kind else { return Vec::new() };
    if !is_like || !is_text.contains(&text.ty) {
        return Vec::new();
    }
    let Some((prefix, whole)) = fixed_prefix(pattern) else { return Vec::new() };
    let bound = |operator: &str, value: String| {
        compared(operator, text, Datum::Text(value.into()), TypeOid::TEXT)
    };
    if whole {
        return bound("=", prefix).into_iter().collect();
    }
    let behind = behind_all(&prefix).and_then(|behind| bound("<", behind));
    bound(">=", prefix).into_iter().chain(behind).collect()
}

/// Returns the constant prefix of a LIKE pattern, if there is one. The flag is true if the prefix
/// is the whole pattern.
fn fixed_prefix(pattern: &str) -> Option<(String, bool)> {
    let (mut prefix, mut rest) = (String::new(), pattern.chars());
    let whole = loop {
        match rest.next() {
            None => break true,
            Some('%' | '_') => break false,
            // An escape at the pattern's end is an error for texts that end there, and for no other
            // text.
            Some('\\') => match rest.next() {
                Some(character) => prefix.push(character),
                None => break true,
            },
            Some(character) => prefix.push(character),
        }
    };
    (whole || !prefix.is_empty()).then_some((prefix, whole))
}

/// Returns the least text after all texts with this prefix; `None` if no text is greater.
fn behind_all(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // A range of `char` skips the surrogates, which are not characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_with_what_stands_for_itself() {
        let prefix = |pattern: &str| fixed_prefix(pattern);
        assert_eq!(prefix("ab%c_"), Some(("ab".to_owned(), false)));
        assert_eq!(prefix("ab"), Some(("ab".to_owned(), true)));
        assert_eq!(prefix(""), Some((String::new(), true)));
        assert_eq!(prefix("%ab"), None);
        assert_eq!(prefix("_ab"), None);
        assert_eq!(prefix("a\\%b\\\\\\_%"), Some(("a%b\\_".to_owned(), false)));
        assert_eq!(prefix("ab\\"), Some(("ab".to_owned(), true)));
    }

    #[test]
    fn the_next_text_is_behind_all_that_begin_alike() {
        let next = |prefix: &str| behind_all(prefix);
        assert_eq!(next("ab").as_deref(), Some("ac"));
        assert_eq!(next("a\u{7f}").as_deref(), Some("a\u{80}"));
        assert_eq!(next("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(next("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(next("\u{10ffff}"), None);
        assert_eq!(next(""), None);
        for (prefix, text) in [("ab", "ab"), ("ab", "ab\u{10ffff}z"), ("é", "éz")] {
            let next = next(prefix).unwrap();
            assert!(prefix.as_bytes() <= text.as_bytes() && text.as_bytes() < next.as_bytes());
        }
    }
}
