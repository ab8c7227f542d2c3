//! The types of parsed CREATE TABLE and CREATE INDEX statements.

use niwaki_catalog::{ConstraintTime, Identity, Oid, ReferentialAction};
use niwaki_types::ColumnType;

use super::{Name, PartitionBy, PartitionOfSpec, SequenceOptions, UserTypeName};

/// FOREIGN KEY (…) REFERENCES …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeySpec {
    /// Referencing columns. For a column constraint, the column itself.
    pub columns: Vec<String>,
    /// The referenced table.
    pub references: Name,
    /// Referenced columns; empty for the primary key.
    pub referenced: Vec<String>,
    /// ON UPDATE
    pub on_update: ReferentialAction,
    /// ON DELETE
    pub on_delete: ReferentialAction,
    /// Columns that ON DELETE sets; empty for all.
    pub set_columns: Vec<String>,
    /// MATCH FULL
    pub match_full: bool,
    /// DEFERRABLE, and INITIALLY DEFERRED.
    pub check_time: ConstraintTime,
}

/// A column of CREATE TABLE or ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    /// Name.
    pub name: String,
    /// Type; for a serial column its integer type.
    pub column_type: ColumnType,
    /// The type's name, if only the catalog can resolve it.
    pub user_type: Option<UserTypeName>,
    /// COLLATE, if given.
    pub collation: Option<Oid>,
    /// True for `serial` and similar.
    pub serial: bool,
    /// NOT NULL given, or implied by serial and identity.
    pub not_null: bool,
    /// DEFAULT as SQL text.
    pub default: Option<String>,
    /// GENERATED … AS IDENTITY and the options of its sequence.
    pub identity: Option<(Identity, SequenceOptions)>,
    /// GENERATED ALWAYS AS (…) STORED, as SQL text.
    pub generated: Option<String>,
    /// True if the texts are stored ones, copied from another table.
    pub stored: bool,
}

impl ColumnSpec {
    /// Creates a column that has only a name and a type.
    pub fn new(name: String, column_type: ColumnType) -> Self {
        Self {
            name,
            column_type,
            user_type: None,
            collation: None,
            serial: false,
            not_null: false,
            default: None,
            identity: None,
            generated: None,
            stored: false,
        }
    }
}

/// A constraint of a table or column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintSpec {
    /// Name, if given.
    pub name: Option<String>,
    /// The kind of the constraint.
    pub kind: ConstraintSpecKind,
    /// NOT VALID: only new rows are checked.
    pub not_valid: bool,
    /// True if the text is a stored one, copied from another table.
    pub stored: bool,
}

/// The kinds of constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintSpecKind {
    /// CHECK, with its SQL text and the column of a column constraint, from which its name is
    /// derived.
    Check {
        /// Condition.
        expression: String,
        /// Column of a column constraint.
        column: Option<String>,
        /// NO INHERIT
        no_inherit: bool,
    },
    /// PRIMARY KEY or UNIQUE.
    Unique {
        /// PRIMARY KEY
        primary: bool,
        /// Key columns.
        columns: Vec<String>,
        /// INCLUDE columns.
        include: Vec<String>,
        /// NULLS NOT DISTINCT
        nulls_not_distinct: bool,
        /// DEFERRABLE, and INITIALLY DEFERRED.
        check_time: ConstraintTime,
        /// WITH options of the index.
        options: Vec<(String, Option<String>)>,
    },
    /// FOREIGN KEY, REFERENCES
    Foreign(Box<ForeignKeySpec>),
}

/// The lifetime of a relation and its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Until they are dropped.
    Permanent,
    /// UNLOGGED: empty after a crash.
    Unlogged,
    /// TEMPORARY: visible to the session only, and dropped at its end.
    Temporary,
}

/// The effect of the end of a transaction on a temporary table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    /// Nothing.
    PreserveRows,
    /// Empties it.
    DeleteRows,
    /// Drops it.
    Drop,
}

/// LIKE in CREATE TABLE
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Like {
    /// The table whose columns are copied.
    pub relation: Name,
    /// Number of the new table's own columns before the copied ones.
    pub position: usize,
    /// The included objects: bits of the grammar.
    pub(crate) options: u32,
}

impl Like {
    /// Returns whether the clause copies this kind of object besides the columns.
    pub fn includes(&self, option: LikeOption) -> bool {
        self.options & option as u32 != 0
    }
}

/// The kinds of objects that LIKE may include. STORAGE, COMPRESSION and STATISTICS have nothing to
/// copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeOption {
    /// Comments on columns, and on constraints and indexes that are copied.
    Comments = 1,
    /// CHECK
    Constraints = 1 << 2,
    /// DEFAULT
    Defaults = 1 << 3,
    /// Expressions of generated columns.
    Generated = 1 << 4,
    /// Identities, with the options of their sequences.
    Identity = 1 << 5,
    /// Indexes, including the indexes of constraints.
    Indexes = 1 << 6,
}

/// CREATE TABLE
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Name.
    pub name: Name,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// UNLOGGED, TEMPORARY.
    pub persistence: Persistence,
    /// ON COMMIT
    pub on_commit: Option<OnCommit>,
    /// Columns in order.
    pub columns: Vec<ColumnSpec>,
    /// Constraints, including column constraints.
    pub constraints: Vec<ConstraintSpec>,
    /// LIKE clauses in order.
    pub likes: Vec<Like>,
    /// WITH options.
    pub options: Vec<(String, Option<String>)>,
    /// PARTITION BY
    pub partition_by: Option<PartitionBy>,
    /// PARTITION OF. The columns and constraints come from the partitioned table.
    pub partition_of: Option<PartitionOfSpec>,
}

/// The content of a key column of CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKeySource {
    /// A column, by name.
    Column(String),
    /// An expression, as SQL text.
    Expression {
        /// The text.
        text: String,
        /// The name part for an index without a name.
        name: String,
    },
}

/// A key column of CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKeySpec {
    /// Column or expression.
    pub source: IndexKeySource,
    /// Operator class, if given.
    pub operator_class: Option<String>,
    /// COLLATE, if given.
    pub collation: Option<Oid>,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST, given explicitly or implied by DESC.
    pub nulls_first: bool,
}

/// CREATE INDEX
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// Name, if given.
    pub name: Option<String>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// UNIQUE
    pub unique: bool,
    /// Table.
    pub table: Name,
    /// Key.
    pub key: Vec<IndexKeySpec>,
    /// INCLUDE columns.
    pub include: Vec<String>,
    /// WHERE, as SQL text.
    pub predicate: Option<String>,
    /// NULLS NOT DISTINCT
    pub nulls_not_distinct: bool,
    /// WITH options.
    pub options: Vec<(String, Option<String>)>,
    /// CONCURRENTLY
    pub concurrently: bool,
}
