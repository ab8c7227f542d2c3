//! The types of parsed utility statements.

use std::sync::Arc;

use niwaki_catalog::{ConstraintTime, Identity, RelationKind};
use niwaki_env::stack::Deep;
use niwaki_types::ColumnType;
use pg_query::NodeEnum;

use super::comment::CommentTarget;
use super::database::DatabaseStatement;
use super::table::{ColumnSpec, ConstraintSpec, CreateIndex, CreateTable, Persistence};

/// A relation's name in a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Database, if given: it must be the session's database ([`crate::check_database`]).
    pub database: Option<String>,
    /// Schema, if given.
    pub schema: Option<String>,
    /// Name.
    pub name: String,
    /// Position in the query text.
    pub position: Option<u32>,
    /// ONLY: without partitions.
    pub only: bool,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

/// Options of BEGIN and SET TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `Some(true)`: REPEATABLE READ; `Some(false)`: READ COMMITTED.
    pub repeatable_read: Option<bool>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE. The mode is only stored: no transaction is serializable.
    pub deferrable: Option<bool>,
}

/// A transaction command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// BEGIN, or START TRANSACTION when `start`.
    Begin {
        /// Modes.
        modes: TransactionModes,
        /// True for START TRANSACTION.
        start: bool,
    },
    /// COMMIT, END
    Commit {
        /// AND CHAIN
        chain: bool,
    },
    /// ROLLBACK, ABORT
    Rollback {
        /// AND CHAIN
        chain: bool,
    },
    /// SAVEPOINT
    Savepoint(String),
    /// RELEASE
    Release(String),
    /// ROLLBACK TO
    RollbackTo(String),
}

/// SET and RESET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// SET name = value
    Value {
        /// Setting.
        name: String,
        /// Text of the value; lists are joined with `, `.
        value: String,
        /// SET LOCAL
        local: bool,
    },
    /// SET name TO DEFAULT, RESET name
    Default {
        /// Setting.
        name: String,
        /// SET LOCAL
        local: bool,
        /// True for RESET, false for SET.
        reset: bool,
    },
    /// RESET ALL
    ResetAll,
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION when `session`.
    Transaction {
        /// Modes.
        modes: TransactionModes,
        /// True if the modes apply to the following transactions, not to this one.
        session: bool,
    },
}

/// The target of REINDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReindexTarget {
    /// INDEX
    Index(Name),
    /// TABLE: all indexes of the table.
    Table(Name),
    /// SCHEMA: the indexes of all tables in the schema.
    Schema(String),
    /// DATABASE
    Database,
}

/// REINDEX
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindex {
    /// The target.
    pub target: ReindexTarget,
    /// CONCURRENTLY
    pub concurrently: bool,
    /// VERBOSE
    pub verbose: bool,
}

/// DROP of relations or schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// The kind of the relations; `None` for schemas.
    pub kind: Option<RelationKind>,
    /// The names.
    pub names: Vec<Name>,
    /// IF EXISTS
    pub if_exists: bool,
    /// CASCADE
    pub cascade: bool,
    /// CONCURRENTLY
    pub concurrently: bool,
}

impl Drop {
    /// Returns the statement's words for messages.
    pub fn word(&self) -> &'static str {
        match self.kind {
            None => "DROP SCHEMA",
            Some(RelationKind::Index) => "DROP INDEX",
            Some(RelationKind::Sequence) => "DROP SEQUENCE",
            Some(RelationKind::View) => "DROP VIEW",
            Some(RelationKind::MaterializedView) => "DROP MATERIALIZED VIEW",
            Some(RelationKind::Table) => "DROP TABLE",
        }
    }
}

/// One action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterCommand {
    /// ADD COLUMN, with its column constraints.
    AddColumn {
        /// The column.
        column: Box<ColumnSpec>,
        /// Its constraints.
        constraints: Vec<ConstraintSpec>,
        /// IF NOT EXISTS
        if_not_exists: bool,
    },
    /// DROP COLUMN
    DropColumn {
        /// Column.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
    /// ALTER COLUMN
    Column {
        /// Column.
        name: String,
        /// The action.
        action: AlterColumn,
    },
    /// ADD CONSTRAINT, ADD PRIMARY KEY, …
    AddConstraint(ConstraintSpec),
    /// ADD CONSTRAINT … USING INDEX
    AddConstraintUsingIndex {
        /// Constraint name, if given.
        name: Option<String>,
        /// True for PRIMARY KEY, false for UNIQUE.
        primary: bool,
        /// Index.
        index: String,
        /// DEFERRABLE, and INITIALLY DEFERRED.
        check_time: ConstraintTime,
    },
    /// DROP CONSTRAINT
    DropConstraint {
        /// Constraint.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
    /// VALIDATE CONSTRAINT
    ValidateConstraint(String),
    /// ALTER CONSTRAINT: changes the time of the check.
    AlterConstraint {
        /// Constraint.
        name: String,
        /// DEFERRABLE, and INITIALLY DEFERRED.
        check_time: ConstraintTime,
    },
    /// ATTACH PARTITION
    AttachPartition {
        /// Table.
        name: Name,
        /// The partition bound.
        bound: super::BoundSpec,
    },
    /// ATTACH PARTITION of an index.
    AttachIndex(Name),
    /// DETACH PARTITION
    DetachPartition(Name),
    /// ENABLE TRIGGER, DISABLE TRIGGER
    EnableTrigger {
        /// The triggers.
        which: super::WhichTriggers,
        /// The sessions in which the triggers then fire.
        mode: niwaki_catalog::TriggerMode,
    },
    /// OWNER TO
    Owner(String),
    /// SET (…)
    SetOptions(Vec<(String, Option<String>)>),
    /// RESET (…)
    ResetOptions(Vec<String>),
    /// Accepted, without effect in Niwaki.
    Nothing,
}

/// An action of ALTER COLUMN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterColumn {
    /// SET DEFAULT, DROP DEFAULT
    Default(Option<String>),
    /// SET NOT NULL
    SetNotNull,
    /// DROP NOT NULL
    DropNotNull,
    /// TYPE
    Type {
        /// The new type; `UNKNOWN` for a user's type.
        column_type: ColumnType,
        /// The name of the new type, if it is no built-in type.
        user_type: Option<super::UserTypeName>,
        /// COLLATE, if given.
        collation: Option<niwaki_catalog::Oid>,
        /// USING, as SQL text.
        using: Option<String>,
    },
    /// ADD GENERATED … AS IDENTITY, with the options of its sequence.
    AddIdentity(Identity, Box<SequenceOptions>),
    /// SET GENERATED, SET and RESTART of an identity column.
    SetIdentity(Option<Identity>, Box<SequenceOptions>),
    /// DROP IDENTITY
    DropIdentity {
        /// IF EXISTS
        if_exists: bool,
    },
    /// DROP EXPRESSION
    DropExpression {
        /// IF EXISTS
        if_exists: bool,
    },
    /// SET STATISTICS: accepted, without effect.
    Statistics,
    /// SET STORAGE and similar, by name: accepted for tables, without effect.
    Nothing(&'static str),
}

/// ALTER … RENAME
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The relation.
    pub relation: Name,
    /// The kind that the statement names.
    pub kind: RelationKind,
    /// The renamed object.
    pub target: RenameTarget,
    /// New name.
    pub to: String,
    /// IF EXISTS
    pub if_exists: bool,
}

/// The renamed object of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameTarget {
    /// The relation itself.
    Relation,
    /// A column of the relation.
    Column(String),
    /// A constraint of the relation.
    Constraint(String),
}

/// Options of a sequence; `None` for options that are not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// AS type (oid)
    pub type_oid: Option<u32>,
    /// INCREMENT BY
    pub increment: Option<i64>,
    /// MINVALUE; `Some(None)`: NO MINVALUE
    pub minimum: Option<Option<i64>>,
    /// MAXVALUE; `Some(None)`: NO MAXVALUE
    pub maximum: Option<Option<i64>>,
    /// START WITH
    pub start: Option<i64>,
    /// RESTART; `Some(None)`: at the start value
    pub restart: Option<Option<i64>>,
    /// CACHE
    pub cache: Option<i64>,
    /// CYCLE
    pub cycle: Option<bool>,
    /// OWNED BY table.column; `Some(None)`: NONE
    pub owned_by: Option<Option<(Name, String)>>,
    /// SEQUENCE NAME of an identity column.
    pub sequence_name: Option<Name>,
}

/// One table of VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumTarget {
    /// Table.
    pub name: Name,
    /// Columns, for ANALYZE.
    pub columns: Vec<String>,
}

/// INDEX_CLEANUP of VACUUM
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCleanup {
    /// If it is worthwhile.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// VACUUM and ANALYZE
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacuum {
    /// True if rows are removed (false: ANALYZE alone).
    pub vacuum: bool,
    /// True if statistics are collected.
    pub analyze: bool,
    /// FREEZE
    pub freeze: bool,
    /// VERBOSE
    pub verbose: bool,
    /// INDEX_CLEANUP; `None`: the table's option decides.
    pub index_cleanup: Option<IndexCleanup>,
    /// TRUNCATE; `None`: the table's option and the settings decide.
    pub truncate: Option<bool>,
    /// DISABLE_PAGE_SKIPPING
    pub disable_page_skipping: bool,
    /// SKIP_LOCKED
    pub skip_locked: bool,
    /// BUFFER_USAGE_LIMIT in kilobytes, 0 for no limit; `None`: the settings decide.
    pub buffer_usage_limit: Option<i64>,
    /// PARALLEL: number of indexes vacuumed concurrently, besides the first; `None`: the settings
    /// decide.
    pub parallel: Option<i64>,
    /// PROCESS_MAIN
    pub process_main: bool,
    /// PROCESS_TOAST
    pub process_large_values: bool,
    /// Tables; empty for all.
    pub targets: Vec<VacuumTarget>,
}

/// The direction of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// COPY … FROM: reads data.
    From,
    /// COPY … TO: writes data.
    To,
}

/// The source of COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Name.
        name: Name,
        /// Columns; empty for all.
        columns: Vec<String>,
    },
    /// The rows of a query.
    Query(Arc<Deep<NodeEnum>>),
}

/// Format options of COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Delimiter between columns; one byte.
    pub delimiter: u8,
    /// The representation of NULL.
    pub null: String,
    /// True if the first line has the column names.
    pub header: bool,
    /// FREEZE
    pub freeze: bool,
    /// The options of the CSV format, if that is the format.
    pub csv: Option<Csv>,
    /// True for the binary format.
    pub binary: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        let (delimiter, null) = (b'\t', "\\N".to_owned());
        Self { delimiter, null, header: false, freeze: false, csv: None, binary: false }
    }
}

/// Options of COPY's CSV format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// Quote around values; one byte.
    pub quote: u8,
    /// Escape before quotes and before itself, inside quotes; one byte.
    pub escape: u8,
    /// Columns whose values are always quoted.
    pub force_quote: ColumnChoice,
    /// Columns in which the NULL representation is an ordinary value.
    pub force_not_null: Vec<String>,
    /// Columns in which even the quoted NULL representation is NULL.
    pub force_null: Vec<String>,
}

/// All columns, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChoice {
    /// `*`
    All,
    /// The named columns.
    Named(Vec<String>),
}

/// COPY
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Table or query.
    pub source: CopySource,
    /// Direction.
    pub direction: CopyDirection,
    /// A file on the server, instead of STDIN or STDOUT.
    pub file: Option<String>,
    /// Format.
    pub options: CopyOptions,
    /// WHERE of COPY FROM, as SQL text.
    pub condition: Option<String>,
}

/// Modes of LOCK TABLE, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// ACCESS SHARE
    AccessShare,
    /// ROW SHARE
    RowShare,
    /// ROW EXCLUSIVE
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE
    ShareUpdateExclusive,
    /// SHARE
    Share,
    /// SHARE ROW EXCLUSIVE
    ShareRowExclusive,
    /// EXCLUSIVE
    Exclusive,
    /// ACCESS EXCLUSIVE
    AccessExclusive,
}

/// A statement that is not a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Utility {
    /// BEGIN, COMMIT, SAVEPOINT, …
    Transaction(TransactionCommand),
    /// SET, RESET
    Set(SetCommand),
    /// SET CONSTRAINTS
    SetConstraints {
        /// The constraints; empty for all.
        names: Vec<Name>,
        /// True for DEFERRED, false for IMMEDIATE.
        deferred: bool,
    },
    /// SHOW name; `all`
    Show(String),
    /// CREATE SCHEMA
    CreateSchema {
        /// Name.
        name: String,
        /// IF NOT EXISTS
        if_not_exists: bool,
    },
    /// CREATE TYPE, ALTER TYPE, DROP TYPE
    Type(super::TypeStatement),
    /// A statement on functions.
    Function(super::FunctionStatement),
    /// A statement on triggers.
    Trigger(super::TriggerStatement),
    /// CREATE TABLE
    CreateTable(Box<CreateTable>),
    /// CREATE VIEW
    CreateView(Box<super::CreateView>),
    /// CREATE TABLE AS, SELECT INTO, CREATE MATERIALIZED VIEW
    CreateTableAs(Box<super::CreateTableAs>),
    /// REFRESH MATERIALIZED VIEW
    Refresh {
        /// Name.
        name: Name,
        /// CONCURRENTLY
        concurrently: bool,
        /// True for WITH DATA. Otherwise, the view cannot be read until the next refresh.
        with_data: bool,
    },
    /// CREATE INDEX
    CreateIndex(Box<CreateIndex>),
    /// CREATE SEQUENCE
    CreateSequence {
        /// Name.
        name: Name,
        /// Options.
        options: Box<SequenceOptions>,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// UNLOGGED, TEMPORARY.
        persistence: Persistence,
    },
    /// ALTER SEQUENCE
    AlterSequence {
        /// Name.
        name: Name,
        /// Options.
        options: Box<SequenceOptions>,
        /// IF EXISTS
        if_exists: bool,
    },
    /// DROP
    Drop(Drop),
    /// ALTER TABLE, ALTER INDEX, in order
    Alter {
        /// The relation.
        name: Name,
        /// The kind that the statement names.
        kind: RelationKind,
        /// IF EXISTS
        if_exists: bool,
        /// The actions.
        commands: Vec<AlterCommand>,
    },
    /// RENAME
    Rename(Rename),
    /// CREATE, ALTER, DROP DATABASE
    Database(DatabaseStatement),
    /// ALTER SCHEMA … RENAME TO
    RenameSchema {
        /// Name.
        name: String,
        /// New name.
        to: String,
    },
    /// ALTER SCHEMA … OWNER TO
    SchemaOwner {
        /// Name.
        name: String,
        /// The role.
        role: String,
    },
    /// ALTER … SET SCHEMA
    SetSchema {
        /// The relation.
        relation: Name,
        /// The kind that the statement names.
        kind: RelationKind,
        /// The new schema.
        schema: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// COMMENT ON; `None` removes the comment.
    Comment {
        /// The object.
        target: CommentTarget,
        /// The text.
        text: Option<String>,
    },
    /// LISTEN
    Listen(String),
    /// UNLISTEN; `None`: all channels.
    Unlisten(Option<String>),
    /// NOTIFY
    Notify {
        /// Channel.
        channel: String,
        /// Payload, empty when none is given.
        payload: String,
    },
    /// TRUNCATE
    Truncate {
        /// Tables.
        names: Vec<Name>,
        /// RESTART IDENTITY
        restart_identity: bool,
        /// CASCADE
        cascade: bool,
    },
    /// REINDEX
    Reindex(Reindex),
    /// VACUUM, ANALYZE
    Vacuum(Vacuum),
    /// CHECKPOINT
    Checkpoint,
    /// COPY
    Copy(Box<Copy>),
    /// PREPARE
    Prepare {
        /// Name.
        name: String,
        /// Types of the given parameters: built-in types, or the names of users' types.
        types: Vec<(ColumnType, Option<super::UserTypeName>)>,
        /// The statement.
        query: Arc<Deep<NodeEnum>>,
    },
    /// EXECUTE
    Execute {
        /// Name.
        name: String,
        /// Values, as SQL text of constant expressions.
        parameters: Vec<String>,
    },
    /// EXPLAIN EXECUTE
    ExplainExecute {
        /// Name.
        name: String,
        /// Values, as SQL text of constant expressions.
        parameters: Vec<String>,
        /// The `ExplainStmt`, whose query is the EXECUTE, or CREATE TABLE AS with it.
        explain: Arc<Deep<NodeEnum>>,
    },
    /// DEALLOCATE; `None`: ALL
    Deallocate(Option<String>),
    /// DISCARD
    Discard(&'static str),
    /// LOCK TABLE
    Lock {
        /// Tables.
        names: Vec<Name>,
        /// Mode.
        mode: LockMode,
        /// NOWAIT
        nowait: bool,
    },
    /// DECLARE … CURSOR FOR
    DeclareCursor(Box<super::DeclareCursor>),
    /// FETCH, MOVE
    Fetch(super::Fetch),
    /// CLOSE; `None`: ALL
    CloseCursor(Option<String>),
    /// Accepted, without effect in Niwaki.
    Nothing {
        /// The command tag of the answer.
        tag: &'static str,
        /// SQLSTATEs and messages of notices.
        notices: Vec<(&'static str, String)>,
    },
}

impl Utility {
    /// Returns whether a failed transaction still accepts the statement: it ends the transaction.
    pub fn ends_failed_transaction(&self) -> bool {
        matches!(
            self,
            Self::Transaction(
                TransactionCommand::Commit { .. }
                    | TransactionCommand::Rollback { .. }
                    | TransactionCommand::RollbackTo(_)
            )
        )
    }

    /// Returns whether a session runs the statement however much memory the session holds: it ends
    /// or discards something.
    pub fn gives_memory_back(&self) -> bool {
        matches!(
            self,
            Self::Transaction(_)
                | Self::Deallocate(_)
                | Self::CloseCursor(_)
                | Self::Discard(_)
                | Self::Unlisten(_)
        )
    }

    /// Returns whether the statement takes a snapshot, as queries do. After it, the isolation level
    /// cannot change.
    pub fn takes_snapshot(&self) -> bool {
        !matches!(
            self,
            Self::Transaction(_)
                | Self::Set(_)
                | Self::SetConstraints { .. }
                | Self::Show(_)
                | Self::Lock { .. }
                | Self::Fetch(_)
                | Self::Listen(_)
                | Self::Unlisten(_)
                | Self::Notify { .. }
                | Self::Checkpoint
        )
    }

    /// Returns whether a READ ONLY transaction may run the statement although it writes: it changes
    /// no row.
    pub fn maintains(&self) -> bool {
        matches!(self, Self::Vacuum(_) | Self::Reindex(_))
    }

    /// Returns the statement's name for the message, if it must not run inside a transaction block.
    pub fn refuses_transaction_block(&self) -> Option<&'static str> {
        match self {
            Self::Vacuum(v) if v.vacuum => Some("VACUUM"),
            Self::CreateIndex(i) if i.concurrently => Some("CREATE INDEX CONCURRENTLY"),
            Self::Drop(d) if d.concurrently => Some("DROP INDEX CONCURRENTLY"),
            Self::Reindex(r) if r.concurrently => Some("REINDEX CONCURRENTLY"),
            Self::Reindex(Reindex { target: ReindexTarget::Schema(_), .. }) => {
                Some("REINDEX SCHEMA")
            }
            Self::Reindex(Reindex { target: ReindexTarget::Database, .. }) => {
                Some("REINDEX DATABASE")
            }
            Self::Discard("DISCARD ALL") => Some("DISCARD ALL"),
            Self::Database(
                statement @ (DatabaseStatement::Create { .. } | DatabaseStatement::Drop { .. }),
            ) => Some(statement.tag()),
            _ => None,
        }
    }
}
