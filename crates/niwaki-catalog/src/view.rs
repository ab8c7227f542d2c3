//! Stored definitions of views (`docs/format.md`, catalog).
//!
//! A view is stored as text with, beside it, what the names in the text meant when the view was created: relations,
//! types and other objects by number, columns by position. Reading the text again with these meanings gives the same
//! query whatever was renamed since and whatever the reader's search path is.

use serde::{Deserialize, Serialize};

use crate::definition::Oid;

/// What a name in the text of a view means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meaning {
    /// A relation, and the names that its columns have in the text, by position. Columns that are not listed were added
    /// later, and those with an empty name were dropped before: the text sees neither.
    #[serde(rename = "rel")]
    Relation(Oid, Vec<String>),
    /// A type that a user defined, by its own number.
    #[serde(rename = "type")]
    Type(Oid),
    /// A function that a user defined.
    #[serde(rename = "fn")]
    Function(Oid),
    /// The object that a literal of an object's type names (`'s'::regclass`).
    #[serde(rename = "obj")]
    Object(u32),
}

/// A name in the text of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundName {
    /// Byte of the text at which it stands.
    pub at: u32,
    /// What it means.
    #[serde(rename = "is")]
    pub meaning: Meaning,
}

/// A relation that a view reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSource {
    /// The relation.
    #[serde(rename = "rel")]
    pub relation: Oid,
    /// Positions of the columns that it reads, ascending; empty when it reads none, only whether there are rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<u16>,
}

/// Which rows written through a view must be seen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    /// WITH LOCAL CHECK OPTION: its own condition must hold.
    #[serde(rename = "local")]
    Local,
    /// WITH CASCADED CHECK OPTION: those of the views below too.
    #[serde(rename = "cascaded")]
    Cascaded,
}

impl CheckOption {
    /// The word of the view's option `check_option`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cascaded => "cascaded",
        }
    }

    /// The option of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Local, Self::Cascaded].into_iter().find(|option| option.word() == word)
    }
}

/// What literals in the text of a view are read with: what its creator's session had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiteralSettings {
    /// `TimeZone`
    #[serde(rename = "zone")]
    pub time_zone: String,
    /// The order of `DateStyle`.
    #[serde(rename = "date")]
    pub date_order: String,
    /// `IntervalStyle`
    #[serde(rename = "interval")]
    pub interval_style: String,
    /// What `now`, `today` and their like mean in literals: microseconds since 2000-01-01 UTC.
    pub now: i64,
}

/// What makes a relation a user's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDefinition {
    /// The query.
    #[serde(rename = "sql")]
    pub text: String,
    /// What the names in it mean, in the order of their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<BoundName>,
    /// What it reads, in the order of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ViewSource>,
    /// Numbers of users' types that it names, or that its columns have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Oid>,
    /// How its literals are read.
    #[serde(rename = "set")]
    pub settings: LiteralSettings,
}

impl ViewDefinition {
    /// What the name at a byte of the text means.
    pub fn meaning_at(&self, at: u32) -> Option<&Meaning> {
        let found = self.names.binary_search_by_key(&at, |name| name.at).ok()?;
        self.names.get(found).map(|name| &name.meaning)
    }

    /// The positions of the columns that it reads of a relation; `None` when it does not read the relation.
    pub fn columns_of(&self, relation: Oid) -> Option<&[u16]> {
        let source = self.sources.iter().find(|source| source.relation == relation)?;
        Some(&source.columns)
    }
}
