//! Generated names, formed as PostgreSQL forms them.

use niwaki_catalog::{CatalogState, Oid};

/// Greatest length of an identifier in bytes, as in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// Returns `first_second_label`. The two names are shortened until the whole fits, the longer one
/// first.
pub(crate) fn object_name(first: &str, second: Option<&str>, label: &str) -> String {
    let overhead = label.len() + 1 + usize::from(second.is_some());
    let available = NAME_BYTES_MAX.saturating_sub(overhead);
    let mut first_length = first.len();
    let mut second_length = second.map_or(0, str::len);
    while first_length + second_length > available {
        if first_length > second_length {
            first_length -= 1;
        } else {
            second_length -= 1;
        }
    }
    let mut name = clipped(first, first_length).to_owned();
    if let Some(second) = second {
        name.push('_');
        name.push_str(clipped(second, second_length));
    }
    name.push('_');
    name.push_str(label);
    name
}

fn clipped(text: &str, mut length: usize) -> &str {
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    &text[..length]
}

/// Returns a name of this form that no relation of the schema and no entry of `taken` has.
pub(crate) fn free_name(
    state: &CatalogState,
    schema: Oid,
    taken: &[String],
    first: &str,
    second: Option<&str>,
    label: &str,
) -> String {
    let mut number = 0u32;
    loop {
        let numbered = if number == 0 { label.to_owned() } else { format!("{label}{number}") };
        let name = object_name(first, second, &numbered);
        if state.lookup(schema, &name).is_none() && !taken.contains(&name) {
            return name;
        }
        // Ends: the relations are fewer than the numbers.
        number += 1;
    }
}

/// Joins column names as PostgreSQL joins them for index names.
pub(crate) fn joined(columns: &[String]) -> String {
    let mut text = String::new();
    let mut used: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        if !text.is_empty() {
            text.push('_');
        }
        // A repeated column gets a number.
        let mut name = column.clone();
        let mut number = 0u32;
        while used.contains(&name) {
            number += 1;
            name = format!("{column}{number}");
        }
        text.push_str(&name);
        used.push(name);
        if text.len() >= NAME_BYTES_MAX {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_to_fit() {
        assert_eq!(object_name("t", None, "pkey"), "t_pkey");
        assert_eq!(object_name("t", Some("a_b"), "idx"), "t_a_b_idx");
        let long = object_name(&"x".repeat(80), Some(&"y".repeat(80)), "key");
        assert_eq!(long.len(), 63);
        assert!(long.starts_with('x') && long.contains("_y") && long.ends_with("_key"));
        let umlauts = object_name(&"ä".repeat(80), None, "key");
        assert!(umlauts.len() <= 63);
    }
}
