//! Stored references: numbers in place of the names of users' objects, in the text of stored
//! expressions.
//!
//! ```text
//! pg_oid."16401"(x)                   a function
//! x::pg_oid."268451858"               a type, by the number that has its kind
//! pg_oid.label('268451858', '46…')    a value of an enum, by type and position
//! '16405'::regclass                   an object that a literal names
//! ```
//!
//! No user's schema has a name that begins with `pg_`, so a written name is never mistaken for a
//! number. All other names in such a text are PostgreSQL's own, or columns.

use niwaki_catalog::Oid;
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use crate::column_names::end_of_dotted_name;
use crate::error::{Result, SqlError};
use crate::parse::behind_continuation;
use crate::types::format_oid;
use crate::walk::each_node;

/// The schema whose objects are named by their numbers.
pub const REFERENCES_SCHEMA: &str = "pg_oid";
/// The function in that schema that returns enum values.
const LABEL: &str = "label";

/// The replacement of a name in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredReference {
    /// A dotted name: the number of a function, or of a type with its kind.
    Name(u32),
    /// A string constant: an enum value.
    Label(TypeOid, u64),
    /// A string constant: an object, with the type of its name.
    Object(u32, TypeOid),
}

impl StoredReference {
    /// Returns the replacement of a value's string constant, if the value names an object.
    pub fn of_value(value: &Datum, kind: TypeOid) -> Option<Self> {
        match value {
            Datum::Enum(oid, position) => Some(Self::Label(*oid, *position)),
            Datum::Oid(number) if *number != 0 => Some(Self::Object(*number, kind)),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Name(number) => name(*number),
            Self::Label(kind, position) => {
                format!("{REFERENCES_SCHEMA}.{LABEL}('{}', '{position}')", kind.0)
            }
            Self::Object(number, kind) => format!("'{number}'::{}", format_oid(*kind)),
        }
    }
}

fn name(number: u32) -> String {
    format!("{REFERENCES_SCHEMA}.\"{number}\"")
}

/// Returns the text of a `nextval` call, independent of the sequence's name.
pub fn nextval_of(sequence: Oid) -> String {
    format!("nextval('{sequence}'::regclass)")
}

/// Returns the name of a user's type in a stored text; `None` for a built-in type.
pub fn type_number(column: ColumnType) -> Option<String> {
    let declared = column.declared();
    let element = declared.element().unwrap_or(declared);
    element.user_number()?;
    Some(format!("{}{}", name(element.0), if element == declared { "" } else { "[]" }))
}

/// Returns the text of an expression with numbers for names. `found` has the names' places in the
/// text with `SELECT ` in front.
///
/// # Errors
/// `0A000` if a name means two things.
pub fn with_references(
    expression: &str,
    mut found: Vec<(usize, StoredReference)>,
) -> Result<String> {
    const PREFIX: &str = "SELECT ";
    found.sort_by_key(|(at, _)| *at);
    found.dedup();
    if found.windows(2).any(|two| two.first().map(|f| f.0) == two.last().map(|f| f.0)) {
        return Err(SqlError::unsupported("an expression in which a name means two things"));
    }
    let query = format!("{PREFIX}{expression}");
    let mut text = String::with_capacity(query.len());
    let mut copied = PREFIX.len();
    for (at, number) in found {
        let end = match number {
            StoredReference::Name(_) => end_of_dotted_name(&query, at),
            StoredReference::Label(..) | StoredReference::Object(..) => end_of_string(&query, at),
        };
        let before = query.get(copied..at);
        let (Some(before), Some(end)) = (before, end) else {
            return Err(SqlError::internal("a name in an expression stands nowhere"));
        };
        text.push_str(before);
        text.push_str(&number.text());
        copied = end;
    }
    text.push_str(query.get(copied..).unwrap_or_default());
    Ok(text)
}

/// Returns the end of the string constant that begins at `start`.
fn end_of_string(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let escapes = matches!(bytes.get(start)?, b'E' | b'e');
    let mut at = start + usize::from(escapes);
    (bytes.get(at) == Some(&b'\'')).then_some(())?;
    at += 1;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'\\', _) if escapes => at += 2,
            // A doubled quote stands for one quote in the string.
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => match behind_continuation(bytes, at + 1) {
                Some(inside) => at = inside,
                None => return Some(at + 1),
            },
            _ => at += 1,
        }
    }
}

/// A user's object that a stored expression needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A function.
    Function(Oid),
    /// A type, by its own number.
    Type(Oid),
    /// A relation or another object named by a literal.
    Object(Oid),
}

/// Returns the objects that a stored expression names, without duplicates.
///
/// # Errors
/// `42601` if the text is no expression.
pub fn objects_named(text: &str) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    // Most texts name no object, and need not be parsed.
    if !text.contains(REFERENCES_SCHEMA) && !text.contains("::reg") {
        return Ok(found);
    }
    each_node(text, |node| match node {
        NodeEnum::FuncCall(call) => match reference_of(&call.funcname) {
            Some(ParsedReference::Object(number)) => found.push(named(number)),
            Some(ParsedReference::Label) => {
                let kind = call.args.first().and_then(string_of).and_then(|kind| kind.parse().ok());
                found.extend(kind.map(named));
            }
            None => {}
        },
        NodeEnum::TypeCast(cast) => {
            let names = cast.type_name.as_ref().map(|name| name.names.as_slice());
            let names = names.unwrap_or_default();
            if let Some(ParsedReference::Object(number)) = reference_of(names) {
                found.push(named(number));
            }
            let last = names.last().and_then(|node| match &node.node {
                Some(NodeEnum::String(name)) => Some(name.sval.as_str()),
                _ => None,
            });
            let is_object =
                last.and_then(crate::types::type_by_name).is_some_and(|kind| kind.is_object_name());
            let number = cast.arg.as_deref().and_then(string_of);
            if let (true, Some(number)) = (is_object, number.and_then(|n| n.parse::<u32>().ok())) {
                let kind = TypeOid(number).user_number();
                found.push(kind.map_or(Named::Object(Oid(number)), |kind| Named::Type(Oid(kind))));
            }
        }
        _ => {}
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn named(number: u32) -> Named {
    match TypeOid(number).user_number() {
        Some(kind) => Named::Type(Oid(kind)),
        None => Named::Function(Oid(number)),
    }
}

/// The meaning of a dotted name in the schema of numbers.
pub enum ParsedReference {
    /// The number of an object.
    Object(u32),
    /// A label of an enum.
    Label,
}

/// Returns the meaning of a dotted name, if it is in the schema of numbers.
pub fn reference_of(names: &[Node]) -> Option<ParsedReference> {
    let part = |node: &Node| match &node.node {
        Some(NodeEnum::String(name)) => Some(name.sval.clone()),
        _ => None,
    };
    match names {
        [schema, name] if part(schema)? == REFERENCES_SCHEMA => match part(name)?.as_str() {
            LABEL => Some(ParsedReference::Label),
            number => number.parse().ok().map(ParsedReference::Object),
        },
        _ => None,
    }
}

/// Returns the text of a string constant.
pub fn string_of(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(Val::Sval(text)) => Some(&text.sval),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers_where_they_stand() {
        let text = "s.f(a, 'it''s') || \"S\" . \"g\"(E'\\'x', b::mood)";
        let at = |part: &str| "SELECT ".len() + text.find(part).unwrap();
        let mood = TypeOid::of_enum(16_400);
        let found = vec![
            (at("b::mood") + 3, StoredReference::Name(mood.0)),
            (at("s.f"), StoredReference::Name(16_401)),
            (at("E'"), StoredReference::Label(mood, 7)),
            (at("'it"), StoredReference::Object(16_402, TypeOid::REGCLASS)),
            (at("\"S\""), StoredReference::Name(16_403)),
            (at("s.f"), StoredReference::Name(16_401)),
        ];
        let stored = with_references(text, found).unwrap();
        assert_eq!(
            stored,
            "pg_oid.\"16401\"(a, '16402'::regclass) || \
             pg_oid.\"16403\"(pg_oid.label('268451856', '7'), b::pg_oid.\"268451856\")"
        );
        assert_eq!(
            objects_named(&stored).unwrap(),
            [
                Named::Function(Oid(16_401)),
                Named::Function(Oid(16_403)),
                Named::Type(Oid(16_400)),
                Named::Object(Oid(16_402)),
            ]
        );
        assert_eq!(objects_named("lower(a) || 'pg_oid.\"1\"(2)'").unwrap(), []);
    }

    #[test]
    fn strings_go_on_in_other_lines() {
        for text in ["'a' \n 'b'", "e'a' -- '\n'\\'b'", "e'a''' \r'b'"] {
            let found = vec![("SELECT ".len(), StoredReference::Object(16_402, TypeOid::REGCLASS))];
            assert_eq!(with_references(text, found).unwrap(), "'16402'::regclass", "{text}");
        }
        let found = vec![("SELECT ".len(), StoredReference::Object(16_402, TypeOid::REGCLASS))];
        assert_eq!(with_references("'a' || 'b'", found).unwrap(), "'16402'::regclass || 'b'");
    }

    #[test]
    fn a_name_that_means_two_things_is_refused() {
        let found = vec![(7, StoredReference::Name(16_401)), (7, StoredReference::Name(16_402))];
        assert_eq!(with_references("f(1)", found).unwrap_err().sqlstate, "0A000");
    }
}
