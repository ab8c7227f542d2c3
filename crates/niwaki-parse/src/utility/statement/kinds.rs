//! A utility statement.

use niwaki_catalog::RelationKind;
use niwaki_txn::TableLockMode;
use niwaki_types::ColumnType;

use super::{
    AlterCommand, CommentTarget, Copy, CopyDirection, CreateIndex, CreateTable, CreateTableAs,
    CreateView, DatabaseStatement, DeclareCursor, Drop, Fetch, FunctionStatement, Name,
    Persistence, Reindex, ReindexTarget, Rename, SequenceOptions, SetCommand, TransactionCommand,
    TriggerStatement, TypeStatement, UserTypeName, Vacuum, alter_tag,
};
use crate::tree::SyntaxTree;

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
    Type(TypeStatement),
    /// A statement on functions.
    Function(FunctionStatement),
    /// A statement on triggers.
    Trigger(TriggerStatement),
    /// CREATE TABLE
    CreateTable(Box<CreateTable>),
    /// CREATE VIEW
    CreateView(Box<CreateView>),
    /// CREATE TABLE AS, SELECT INTO, CREATE MATERIALIZED VIEW
    CreateTableAs(Box<CreateTableAs>),
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
        types: Vec<(ColumnType, Option<UserTypeName>)>,
        /// The statement.
        query: SyntaxTree,
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
        explain: SyntaxTree,
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
        mode: TableLockMode,
        /// NOWAIT
        nowait: bool,
    },
    /// DECLARE … CURSOR FOR
    DeclareCursor(Box<DeclareCursor>),
    /// FETCH, MOVE
    Fetch(Fetch),
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

    /// Returns the statement's name for the message, if a READ ONLY transaction refuses it. COPY
    /// FROM may write to temporary tables.
    pub fn refuses_read_only(&self) -> Option<&'static str> {
        let name = match self {
            Self::CreateTable(_) => "CREATE TABLE",
            Self::CreateView(_) => "CREATE VIEW",
            Self::CreateTableAs(spec) => spec.word(),
            Self::Refresh { .. } => "REFRESH MATERIALIZED VIEW",
            Self::CreateIndex(_) => "CREATE INDEX",
            Self::CreateSchema { .. } => "CREATE SCHEMA",
            Self::CreateSequence { .. } => "CREATE SEQUENCE",
            Self::AlterSequence { .. } => "ALTER SEQUENCE",
            Self::Type(statement) => statement.tag(),
            Self::Function(statement) => statement.tag(),
            Self::Trigger(statement) => statement.tag(),
            Self::Drop(spec) => spec.word(),
            Self::Alter { kind, .. } | Self::SetSchema { kind, .. } => alter_tag(*kind),
            Self::Rename(spec) => alter_tag(spec.kind),
            Self::RenameSchema { .. } | Self::SchemaOwner { .. } => "ALTER SCHEMA",
            Self::Database(statement) => statement.tag(),
            Self::Comment { .. } => "COMMENT",
            Self::Truncate { .. } => "TRUNCATE TABLE",
            Self::Nothing { tag, .. } => tag,
            Self::Copy(copy) if copy.direction == CopyDirection::From => "COPY FROM",
            // These write nothing, change no row, or run a statement that is checked by itself.
            Self::Transaction(_)
            | Self::Set(_)
            | Self::SetConstraints { .. }
            | Self::Show(_)
            | Self::Listen(_)
            | Self::Unlisten(_)
            | Self::Notify { .. }
            | Self::Reindex(_)
            | Self::Vacuum(_)
            | Self::Checkpoint
            | Self::Copy(_)
            | Self::Prepare { .. }
            | Self::Execute { .. }
            | Self::ExplainExecute { .. }
            | Self::Deallocate(_)
            | Self::Discard(_)
            | Self::Lock { .. }
            | Self::DeclareCursor(_)
            | Self::Fetch(_)
            | Self::CloseCursor(_) => return None,
        };
        Some(name)
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
            Self::Database(DatabaseStatement::Tablespace { .. }) => {
                Some("ALTER DATABASE SET TABLESPACE")
            }
            _ => None,
        }
    }
}
