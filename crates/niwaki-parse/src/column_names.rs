//! Renames columns in the text of a stored expression.
//!
//! The parser gives the place of each column reference; the rest of the text stays unchanged.

use niwaki_types::quote_identifier;
use pg_query::NodeEnum;

use crate::error::{Result, SqlError};
use crate::walk::each_node;

/// Returns the expression with bare column names, which stay right when a table or schema is
/// renamed.
///
/// # Errors
/// `42601` when the text is no expression.
pub fn unqualified(expression: &str) -> Result<String> {
    rewrite(expression, |names| names.last().map(|name| quote_identifier(name)))
}

/// Returns the expression with another name for a column.
///
/// # Errors
/// `42601` when the text is no expression.
pub fn rename_column(expression: &str, from: &str, to: &str) -> Result<String> {
    rewrite(expression, |names| {
        let name = *names.last()?;
        Some(quote_identifier(if name == from { to } else { name }))
    })
}

/// Returns the expression with another name for a column of a named row, `row.column`.
///
/// # Errors
/// `42601` when the text is no expression.
pub fn rename_field(expression: &str, from: &str, to: &str) -> Result<String> {
    rewrite(expression, |names| match names {
        [row, column] if *column == from => {
            Some(format!("{}.{}", quote_identifier(row), quote_identifier(to)))
        }
        _ => None,
    })
}

/// Replaces column references by the texts that `text_of` returns for their names. References
/// without such a text stay.
fn rewrite(expression: &str, text_of: impl Fn(&[&str]) -> Option<String>) -> Result<String> {
    const PREFIX: &str = "SELECT ";
    let query = format!("{PREFIX}{expression}");
    let mut references: Vec<(usize, usize, String)> = Vec::new();
    each_node(expression, |node| {
        let NodeEnum::ColumnRef(column) = node else { return };
        let part = |node: &pg_query::Node| matches!(node.node, Some(NodeEnum::String(_)));
        let names: Vec<&str> = column
            .fields
            .iter()
            .filter_map(|node| match node.node.as_ref() {
                Some(NodeEnum::String(name)) => Some(name.sval.as_str()),
                _ => None,
            })
            .collect();
        if column.fields.iter().all(part)
            && let Some(text) = text_of(&names)
        {
            // Locations count from the SELECT that `each_node` puts in front; they are never
            // negative here.
            let start = usize::try_from(column.location).unwrap_or(usize::MAX);
            references.push((start, column.fields.len(), text));
        }
    })?;
    let mut found: Vec<(usize, usize, String)> = Vec::with_capacity(references.len());
    for (start, parts, name) in references {
        let end = end_of_name(&query, start, parts)
            .ok_or_else(|| SqlError::internal("a column reference that is no name"))?;
        found.push((start, end, name));
    }
    found.sort_by_key(|(start, ..)| *start);
    found.dedup_by_key(|(start, ..)| *start);
    let mut text = String::with_capacity(query.len());
    let mut copied = PREFIX.len();
    for (start, end, name) in found {
        text.push_str(query.get(copied..start).unwrap_or_default());
        text.push_str(&name);
        copied = end;
    }
    text.push_str(query.get(copied..).unwrap_or_default());
    Ok(text)
}

/// Returns the end of a dotted name that begins at `start` and has `parts` parts.
fn end_of_name(text: &str, start: usize, parts: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let blanks = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    };
    let mut at = start;
    for part in 0..parts {
        if part > 0 {
            at = blanks(at);
            (bytes.get(at) == Some(&b'.')).then_some(())?;
            at = blanks(at + 1);
        }
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            // A doubled quote stands for one quote in the name.
            loop {
                match (bytes.get(at)?, bytes.get(at + 1)) {
                    (b'"', Some(b'"')) => at += 2,
                    (b'"', _) => break,
                    _ => at += 1,
                }
            }
            at += 1;
            continue;
        }
        let begin = at;
        while bytes
            .get(at)
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || !b.is_ascii())
        {
            at += 1;
        }
        (at > begin).then_some(())?;
    }
    Some(at)
}

/// Returns the end of the dotted name that begins at `start`.
pub(crate) fn end_of_dotted_name(text: &str, start: usize) -> Option<usize> {
    // Ends: a text has a limited number of points.
    (1..).map_while(|parts| end_of_name(text, start, parts)).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_and_nothing_else() {
        let renamed = |text| rename_column(text, "a", "x y").unwrap();
        assert_eq!(renamed("a + b"), "\"x y\" + b");
        assert_eq!(renamed("lower(A) || 'a' || \"a\""), "lower(\"x y\") || 'a' || \"x y\"");
        assert_eq!(renamed("t . a > 1 AND a(b) = aa"), "\"x y\" > 1 AND a(b) = aa");
        assert_eq!(
            renamed("CASE a WHEN 1 THEN a ELSE -a END"),
            "CASE \"x y\" WHEN 1 THEN \"x y\" ELSE -\"x y\" END"
        );
        assert_eq!(unqualified("public.t.a + \"T\".\"B\"\"c\"").unwrap(), "a + \"B\"\"c\"");
        assert_eq!(unqualified("1 + 2").unwrap(), "1 + 2");
        let renamed = rename_field("new.a + OLD.a > new.b AND a.a = old.*", "a", "X").unwrap();
        assert_eq!(renamed, "new.\"X\" + old.\"X\" > new.b AND a.\"X\" = old.*");
    }
}
