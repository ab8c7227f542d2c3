//! Stored definitions of relations: the content of their catalog rows (`docs/internals/format.md`,
//! catalog).

use niwaki_types::{ColumnType, TypeOid};
use serde::{Deserialize, Serialize};

use crate::definition::constraint::{Check, ConstraintKind, ConstraintTime, is_at_once};
use crate::definition::foreign_key::ForeignKey;
use crate::definition::omitted::is_false;
use crate::definition::partition_key::{PartitionKey, PartitionOf};
use crate::definition::trigger::Trigger;
use crate::definition::view::ViewDefinition;
use crate::rows::oid::Oid;

/// Kind of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RelationKind {
    /// A table: rows in a heap.
    Table,
    /// An index: a B-tree over a table.
    Index,
    /// A sequence.
    Sequence,
    /// A view: a user's query, or a system view whose rows are computed at each read.
    View,
    /// A materialized view: rows in a heap, from the last refresh of its query.
    MaterializedView,
}

impl RelationKind {
    /// Returns PostgreSQL's letter for `pg_class.relkind`.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Table => "r",
            Self::Index => "i",
            Self::Sequence => "S",
            Self::View => "v",
            Self::MaterializedView => "m",
        }
    }
    /// Decides whether such a relation can have rows of its own in a heap, and indexes over them.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Table | Self::MaterializedView)
    }
    /// Decides whether such a relation's rows have a composite type with its name and number.
    pub fn has_row_type(self) -> bool {
        matches!(self, Self::Table | Self::View | Self::MaterializedView)
    }
    /// Returns the word that messages use: `table`, `index`, `sequence`, `view`, `materialized
    /// view`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Index => "index",
            Self::Sequence => "sequence",
            Self::View => "view",
            Self::MaterializedView => "materialized view",
        }
    }

    /// Returns the plural of that word.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Table => "tables",
            Self::Index => "indexes",
            Self::Sequence => "sequences",
            Self::View => "views",
            Self::MaterializedView => "materialized views",
        }
    }
}

/// `GENERATED … AS IDENTITY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// Values given by an INSERT are refused (428C9) without OVERRIDING SYSTEM VALUE.
    Always,
    /// Values given by an INSERT win.
    ByDefault,
}

/// One column of a table. Its attribute number is always its position + 1, because dropped columns
/// stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name of the column; a dropped column has PostgreSQL's `........pg.dropped.N........`.
    pub name: String,
    /// Type oid (PostgreSQL's).
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// PostgreSQL's type modifier, -1 when none.
    #[serde(rename = "m", default = "no_typmod", skip_serializing_if = "is_no_typmod")]
    pub typmod: i32,
    /// The domain of the values, if any. Type and modifier then belong to the domain's base type.
    #[serde(rename = "dom", default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Oid>,
    /// The column's collation, if it differs from its type's.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
    /// NOT NULL (a primary key sets it too).
    #[serde(rename = "nn", default, skip_serializing_if = "is_false")]
    pub not_null: bool,
    /// SQL text of the DEFAULT expression. A serial or identity column has
    /// `nextval('…'::regclass)`, a generated column the expression over the other columns.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Identity column.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The sequence that belongs to this column (serial, identity) and is dropped with it.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Oid>,
    /// The value, as text, of rows older than the column; NULL when absent.
    #[serde(rename = "old", default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// True after DROP COLUMN: the column is invisible, and always NULL in new rows.
    #[serde(rename = "x", default, skip_serializing_if = "is_false")]
    pub dropped: bool,
    /// GENERATED ALWAYS AS (…) STORED: the default is computed from the row, and no other value is
    /// stored.
    #[serde(rename = "g", default, skip_serializing_if = "is_false")]
    pub generated: bool,
    /// COMMENT ON COLUMN.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Column {
    /// Creates a column that may be NULL, without default.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self {
            name: name.into(),
            type_oid: column_type.oid.0,
            typmod: column_type.typmod,
            domain: domain_number(column_type),
            collation: None,
            not_null: false,
            default: None,
            identity: None,
            sequence: None,
            missing: None,
            dropped: false,
            generated: false,
            comment: None,
        }
    }

    /// Returns the stored type, with its domain.
    pub fn column_type(&self) -> ColumnType {
        let domain = self.domain.map(|domain| TypeOid::of_domain(domain.0));
        ColumnType { domain, ..ColumnType::with_typmod(TypeOid(self.type_oid), self.typmod) }
    }

    /// Sets the column's type.
    pub fn set_column_type(&mut self, to: ColumnType) {
        self.type_oid = to.oid.0;
        self.typmod = to.typmod;
        self.domain = domain_number(to);
    }
}

/// Returns the number of a type's domain, if it has one.
fn domain_number(of: ColumnType) -> Option<Oid> {
    of.domain.and_then(TypeOid::user_number).map(Oid)
}

/// An expression over the columns of a table, as the catalog stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredExpression {
    /// SQL text that reads back to the same expression, whatever the session's settings.
    #[serde(rename = "sql")]
    pub text: String,
    /// The expression as PostgreSQL shows it (`pg_get_indexdef`).
    #[serde(rename = "show")]
    pub shown: String,
    /// Oid of the type of the values.
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// The collation of the values, if it differs from their type's; [`Oid::INVALID`] for no
    /// collation.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
}

/// One key column of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    /// Position in the table's columns, from 0, including dropped ones. An expression has
    /// [`IndexColumn::NO_COLUMN`], which equals no column's position.
    pub column: u16,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST (the default of DESC).
    pub nulls_first: bool,
    /// The expression of a computed key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<StoredExpression>,
    /// Name of the operator class, when it is not the type's default one.
    #[serde(rename = "class", default, skip_serializing_if = "Option::is_none")]
    pub operator_class: Option<String>,
    /// The key's collation, if it differs from the column's.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
}

impl IndexColumn {
    /// Value of [`IndexColumn::column`] for an expression. No table has that many columns.
    pub const NO_COLUMN: u16 = u16::MAX;

    /// Creates a key of a column of the table, ascending, NULLs last.
    pub fn ascending(column: u16) -> Self {
        Self {
            column,
            descending: false,
            nulls_first: false,
            expression: None,
            operator_class: None,
            collation: None,
        }
    }

    /// Returns the type of the key's values.
    pub fn type_oid(&self, table: &RelationDefinition) -> TypeOid {
        match &self.expression {
            Some(expression) => TypeOid(expression.type_oid),
            None => table
                .columns
                .get(usize::from(self.column))
                .map_or(TypeOid::UNKNOWN, |column| TypeOid(column.type_oid)),
        }
    }

    /// Returns the key's name in messages and definitions: the column's name, or the expression.
    pub fn shown<'d>(&'d self, table: &'d RelationDefinition) -> &'d str {
        match &self.expression {
            Some(expression) => &expression.shown,
            None => table.columns.get(usize::from(self.column)).map_or("?", |c| c.name.as_str()),
        }
    }
}

/// Definition of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// The table of the index.
    pub table: Oid,
    /// Key columns in order.
    pub key: Vec<IndexColumn>,
    /// INCLUDE columns (positions in the table).
    pub include: Vec<u16>,
    /// True when equal keys are refused.
    pub unique: bool,
    /// The kind of the constraint that created the index, if one did.
    pub constraint: Option<ConstraintKind>,
    /// True when scans may use the index. An interrupted concurrent build leaves false.
    pub valid: bool,
    /// True when the index takes entries. False until a concurrent build has filled it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub ready: bool,
    /// WHERE of a partial index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<StoredExpression>,
    /// NULLS NOT DISTINCT.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nulls_not_distinct: bool,
    /// Time at which the index's constraint is checked.
    #[serde(rename = "check", default, skip_serializing_if = "is_at_once")]
    pub check_time: ConstraintTime,
    /// COMMENT ON CONSTRAINT, which is separate from the index's own comment.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub constraint_comment: Option<String>,
    /// The index of the partitioned table that this index is a part of.
    #[serde(rename = "part", default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Oid>,
}

impl IndexDefinition {
    /// Creates a plain index of a table: not unique, ready and valid.
    pub fn new(table: Oid, key: Vec<IndexColumn>) -> Self {
        Self {
            table,
            key,
            include: Vec::new(),
            unique: false,
            constraint: None,
            valid: true,
            ready: true,
            predicate: None,
            nulls_not_distinct: false,
            check_time: ConstraintTime::AtOnce,
            constraint_comment: None,
            part_of: None,
        }
    }

    /// Decides whether equal keys are impossible even for a moment. Plans may rely on that.
    pub fn is_unique_at_once(&self) -> bool {
        self.unique && self.valid && self.check_time == ConstraintTime::AtOnce
    }

    /// Iterates over the key expressions and the predicate.
    pub fn expressions(&self) -> impl Iterator<Item = &StoredExpression> {
        self.key.iter().filter_map(|key| key.expression.as_ref()).chain(&self.predicate)
    }
}

/// Definition of a sequence. The current value is on the sequence's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    /// Type oid: int2, int4 or int8.
    pub type_oid: u32,
    /// First value.
    pub start: i64,
    /// Step, not 0.
    pub increment: i64,
    /// Least value.
    pub minimum: i64,
    /// Greatest value.
    pub maximum: i64,
    /// CYCLE.
    pub cycle: bool,
    /// Numbers that a session takes at once.
    pub cache: i64,
    /// Table and column position that the sequence belongs to.
    pub owned_by: Option<(Oid, u16)>,
}

/// `WITH (name = value, …)` as given. The options were validated when they were set, and stay in
/// that order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RelationOptions(pub Vec<(String, String)>);

impl RelationOptions {
    /// Returns the value of one option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    /// Returns the value of an option that is on or off. The option's text stays as written.
    pub fn switch(&self, name: &str) -> Option<bool> {
        niwaki_types::parse_bool(self.get(name)?).ok()
    }
    /// Sets one option and moves it to the end.
    pub fn set(&mut self, name: &str, value: &str) {
        self.reset(name);
        self.0.push((name.to_owned(), value.to_owned()));
    }
    /// Removes one option.
    pub fn reset(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }
    /// Returns `fillfactor` in percent, if set.
    pub fn fillfactor(&self) -> Option<u8> {
        self.get("fillfactor").and_then(|v| v.parse().ok())
    }
}

/// Estimates from the last VACUUM, ANALYZE or CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationStats {
    /// Rows; -1 when never counted.
    pub tuples: f64,
    /// Blocks at the time of that count.
    pub pages: u32,
    /// Statistics of each column from ANALYZE; empty before the first ANALYZE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnStats>,
}

impl Default for RelationStats {
    fn default() -> Self {
        Self { tuples: -1.0, pages: 0, columns: Vec::new() }
    }
}

/// An index key of one column, ascending with NULLs last. Keys are ordered as the values are.
/// Stored as hex.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyBytes(pub Vec<u8>);

impl Serialize for KeyBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(self.0.len() * 2);
        for byte in &self.0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for KeyBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = (0..text.len()).step_by(2).map(|at| {
            let pair = text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
            pair.ok_or_else(|| serde::de::Error::custom("a key is not in hex"))
        });
        bytes.collect::<Result<_, _>>().map(Self)
    }
}

/// Statistics of a column from the last ANALYZE, for the planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// Share of NULLs, 0 to 1.
    #[serde(rename = "null")]
    pub null_fraction: f64,
    /// Distinct values; a negative number is a share of the rows.
    pub distinct: f64,
    /// Correlation between the order of values and the order of rows on disk, -1 to 1.
    #[serde(rename = "corr", default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    /// Common values with their share of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub common: Vec<(KeyBytes, f64)>,
    /// Bounds of ranges with equal shares of the other values, ascending. Long keys are cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<KeyBytes>,
}

impl ColumnStats {
    /// Longest stored key, in bytes. Longer bounds are cut to it, and longer common values are left
    /// out.
    pub const KEY_BYTES: usize = 32;
}

/// Everything the catalog stores about one relation.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationDefinition {
    /// Number of the relation.
    pub oid: Oid,
    /// Number of its schema.
    pub schema: Oid,
    /// Name, unique among the relations of the schema.
    pub name: String,
    /// Kind of the relation.
    pub kind: RelationKind,
    /// The relation's files ([`niwaki_storage::RelFileId`]). TRUNCATE and rewrites assign new ones.
    pub file: u64,
    /// The files of a table's out-of-line values, which are created and dropped with its own.
    /// Absent where no value can be large, and in tables from versions without such files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<u64>,
    /// False for UNLOGGED.
    pub logged: bool,
    /// Columns by position, dropped ones included. Empty for an index (see [`IndexDefinition`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// CHECK constraints in the order of names, which is PostgreSQL's order of testing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// FOREIGN KEY constraints of this table, in the order of their numbers.
    #[serde(rename = "foreign", default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// Triggers of this table in the order of names, which is the order of firing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// WITH options.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: RelationOptions,
    /// Set for an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexDefinition>,
    /// Set for a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceDefinition>,
    /// Set for a user's view, materialized or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<ViewDefinition>,
    /// True for a materialized view without data. It cannot be read before a refresh.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unpopulated: bool,
    /// PARTITION BY: the table and its indexes have no rows and files of their own.
    #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<PartitionKey>,
    /// Set for a partition.
    #[serde(rename = "part", default, skip_serializing_if = "Option::is_none")]
    pub partition_of: Option<PartitionOf>,
    /// Size estimates for the planner.
    #[serde(default)]
    pub stats: RelationStats,
    /// COMMENT ON the relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Clone for RelationDefinition {
    // Not derived: derived code is made once more in each crate that copies a definition.
    #[inline(never)]
    fn clone(&self) -> Self {
        Self {
            oid: self.oid,
            schema: self.schema,
            name: self.name.clone(),
            kind: self.kind,
            file: self.file,
            values: self.values,
            logged: self.logged,
            columns: self.columns.clone(),
            checks: self.checks.clone(),
            foreign_keys: self.foreign_keys.clone(),
            triggers: self.triggers.clone(),
            options: self.options.clone(),
            index: self.index.clone(),
            sequence: self.sequence.clone(),
            query: self.query.clone(),
            unpopulated: self.unpopulated,
            partition_key: self.partition_key.clone(),
            partition_of: self.partition_of.clone(),
            stats: self.stats.clone(),
            comment: self.comment.clone(),
        }
    }
}

impl RelationDefinition {
    /// Creates a logged relation without files, columns or other content.
    pub fn new(oid: Oid, schema: Oid, name: String, kind: RelationKind) -> Self {
        Self {
            oid,
            schema,
            name,
            kind,
            file: 0,
            values: None,
            logged: true,
            columns: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            options: RelationOptions::default(),
            index: None,
            sequence: None,
            query: None,
            unpopulated: false,
            partition_key: None,
            partition_of: None,
            stats: RelationStats::default(),
            comment: None,
        }
    }

    /// Returns the FOREIGN KEY constraint of this name.
    pub fn foreign_key(&self, name: &str) -> Option<&ForeignKey> {
        self.foreign_keys.iter().find(|key| key.name == name)
    }

    /// Returns the trigger of this name.
    pub fn trigger(&self, name: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.name == name)
    }

    /// Decides whether some column is generated.
    pub fn has_generated(&self) -> bool {
        self.columns.iter().any(|column| column.generated && !column.dropped)
    }

    /// Decides whether some value of a row can be large, so that the table needs files for such
    /// values.
    pub fn can_have_large_values(&self) -> bool {
        let columns = self.columns.iter().filter(|column| !column.dropped);
        self.kind.has_rows()
            && self.partition_key.is_none()
            && niwaki_table::can_have_large_values(columns.map(Column::column_type))
    }

    /// Returns PostgreSQL's letter for `pg_class.relkind`.
    pub fn letter(&self) -> &'static str {
        match self.kind {
            RelationKind::Table if self.partition_key.is_some() => "p",
            RelationKind::Index if self.file == 0 => "I",
            kind => kind.letter(),
        }
    }

    /// Iterates over all files of the relation.
    pub fn files(&self) -> impl Iterator<Item = u64> {
        // Views, partitioned tables and their indexes have file number 0, which means no file.
        [Some(self.file), self.values].into_iter().flatten().filter(|file| *file != 0)
    }
}

fn no_typmod() -> i32 {
    -1
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_no_typmod(v: &i32) -> bool {
    *v == -1
}
fn yes() -> bool {
    true
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_yes(v: &bool) -> bool {
    *v
}
fn is_default(v: &RelationOptions) -> bool {
    v.0.is_empty()
}
