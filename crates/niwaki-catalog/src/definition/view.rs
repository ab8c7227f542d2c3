//! Stored definitions of views (`docs/internals/format.md`, catalog).
//!
//! A view is stored as text. Beside the text is the meaning of its names at the time of creation:
//! relations, types and other objects by number, columns by position. Reading the text again with
//! these meanings gives the same query, whatever was renamed since and whatever the reader's search
//! path is.

use serde::{Deserialize, Serialize};

use crate::rows::oid::Oid;

/// Meaning of a name in the text of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meaning {
    /// A relation, and its columns' names in the text, by position. Columns that are not listed
    /// were added later, and columns with an empty name were dropped before. The text sees neither.
    #[serde(rename = "rel")]
    Relation(Oid, Vec<String>),
    /// A user-defined type, by its own number.
    #[serde(rename = "type")]
    Type(Oid),
    /// A user-defined function.
    #[serde(rename = "fn")]
    Function(Oid),
    /// The object that a literal of an object type names (`'s'::regclass`).
    #[serde(rename = "obj")]
    Object(u32),
}

/// A name in the text of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundName {
    /// Byte position of the name in the text.
    pub at: u32,
    /// Meaning of the name.
    #[serde(rename = "is")]
    pub meaning: Meaning,
}

/// A relation that a view reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSource {
    /// The relation.
    #[serde(rename = "rel")]
    pub relation: Oid,
    /// Positions of the columns read, ascending. Empty when the view reads only whether there are
    /// rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<u16>,
}

/// Rows written through a view that the view must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    /// WITH LOCAL CHECK OPTION: the view's own condition must hold.
    #[serde(rename = "local")]
    Local,
    /// WITH CASCADED CHECK OPTION: the conditions of the views below must hold too.
    #[serde(rename = "cascaded")]
    Cascaded,
}

impl CheckOption {
    /// Returns the word of the view's option `check_option`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cascaded => "cascaded",
        }
    }

    /// Returns the option of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Local, Self::Cascaded].into_iter().find(|option| option.word() == word)
    }
}

/// Settings for reading literals in the text of a view: the creating session's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiteralSettings {
    /// `TimeZone`.
    #[serde(rename = "zone")]
    pub time_zone: String,
    /// The order of `DateStyle`.
    #[serde(rename = "date")]
    pub date_order: String,
    /// `IntervalStyle`.
    #[serde(rename = "interval")]
    pub interval_style: String,
    /// Meaning of `now`, `today` and similar literals: microseconds since 2000-01-01 UTC.
    pub now: i64,
}

/// Definition of a user's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDefinition {
    /// The query.
    #[serde(rename = "sql")]
    pub text: String,
    /// Meanings of the names in the text, in the order of their positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<BoundName>,
    /// Relations that the view reads, in the order of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ViewSource>,
    /// Numbers of the user types that the view names or that its columns have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Oid>,
    /// Settings for reading the literals.
    #[serde(rename = "set")]
    pub settings: LiteralSettings,
}

impl ViewDefinition {
    /// Returns the meaning of the name at a byte of the text.
    pub fn meaning_at(&self, at: u32) -> Option<&Meaning> {
        let found = self.names.binary_search_by_key(&at, |name| name.at).ok()?;
        self.names.get(found).map(|name| &name.meaning)
    }

    /// Returns the positions of the columns that the view reads of a relation; `None` when it does
    /// not read the relation.
    pub fn columns_of(&self, relation: Oid) -> Option<&[u16]> {
        let source = self.sources.iter().find(|source| source.relation == relation)?;
        Some(&source.columns)
    }
}
