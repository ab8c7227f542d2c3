//! What CREATE TABLE and CREATE INDEX ask for.

use niwaki_catalog::{ConstraintTime, Identity, Oid};
use niwaki_types::ColumnType;

use super::UserTypeName;
use super::foreign_key::ForeignKeySpec;
use super::statement::{Name, SequenceOptions};

/// A column of CREATE TABLE or ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    /// Name.
    pub name: String,
    /// Type; of a serial column its integer type.
    pub column_type: ColumnType,
    /// The type's name, where the catalog alone knows which it is.
    pub user_type: Option<UserTypeName>,
    /// COLLATE, when given.
    pub collation: Option<Oid>,
    /// `serial` and its like.
    pub serial: bool,
    /// NOT NULL given, or implied by serial and identity.
    pub not_null: bool,
    /// DEFAULT as SQL text.
    pub default: Option<String>,
    /// GENERATED … AS IDENTITY and the options of its sequence.
    pub identity: Option<(Identity, SequenceOptions)>,
    /// GENERATED ALWAYS AS (…) STORED, as SQL text.
    pub generated: Option<String>,
    /// Its texts are the catalog's, copied from another table.
    pub stored: bool,
}

impl ColumnSpec {
    /// A column of which no more is said than its name and type.
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
    /// Name, when given.
    pub name: Option<String>,
    /// What it demands.
    pub kind: ConstraintSpecKind,
    /// NOT VALID: of new rows only.
    pub not_valid: bool,
    /// Its text is the catalog's, copied from another table.
    pub stored: bool,
}

/// The kinds of constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintSpecKind {
    /// CHECK, with its SQL text and the column it was written at, which its name is made of.
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

/// How long a relation and its rows last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Until they are dropped.
    Permanent,
    /// UNLOGGED: empty after a crash.
    Unlogged,
    /// TEMPORARY: the session's own, and gone with it.
    Temporary,
}

/// What the end of a transaction does to a temporary table.
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
    /// Whose columns.
    pub relation: Name,
    /// How many of the table's other columns come before them.
    pub position: usize,
    /// What else is included: bits of the grammar's.
    pub(super) options: u32,
}

impl Like {
    /// Whether something is copied besides the columns.
    pub fn includes(&self, option: LikeOption) -> bool {
        self.options & option as u32 != 0
    }
}

/// What LIKE may include. STORAGE, COMPRESSION and STATISTICS have nothing to copy.
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
    /// Indexes, those of constraints too.
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
    /// Constraints, those of columns included.
    pub constraints: Vec<ConstraintSpec>,
    /// LIKE clauses in order.
    pub likes: Vec<Like>,
    /// WITH options.
    pub options: Vec<(String, Option<String>)>,
    /// PARTITION BY
    pub partition_by: Option<super::PartitionBy>,
    /// PARTITION OF, whose columns and constraints are those of the partitioned table.
    pub partition_of: Option<super::PartitionOfSpec>,
}

/// What a key column of CREATE INDEX holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKeySource {
    /// A column, by name.
    Column(String),
    /// An expression, as SQL text.
    Expression {
        /// The text.
        text: String,
        /// What an index without a name is called after it.
        name: String,
    },
}

/// A key column of CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKeySpec {
    /// Column or expression.
    pub source: IndexKeySource,
    /// Operator class, when given.
    pub operator_class: Option<String>,
    /// COLLATE, when given.
    pub collation: Option<Oid>,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST, given or by DESC.
    pub nulls_first: bool,
}

/// CREATE INDEX
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// Name, when given.
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
