//! Utility statements: definitions, transactions, settings, maintenance, COPY.
//!
//! [`read()`] turns a syntax tree into a [`Utility`]. It checks everything that needs no catalog.
//! The session executes the result.

mod command_name;
mod read;
mod statement;
#[cfg(test)]
mod tests;

pub use command_name::command_name;
pub use read::{
    EXTENSIONS, check_database_tablespace, check_language, column_type, expression_text,
    query_text, read,
};
pub use statement::{
    AlterColumn, AlterCommand, ArgumentType, AttributeSpec, BoundSpec, ColumnChoice, ColumnSpec,
    CommentTarget, ConstraintSpec, ConstraintSpecKind, Copy, CopyDirection, CopyOptions,
    CopySource, CreateAsForm, CreateFunction, CreateIndex, CreateTable, CreateTableAs,
    CreateTrigger, CreateView, Csv, DatabaseOptions, DatabaseStatement, DeclareCursor,
    DomainAction, DomainSpec, Drop, Extension, Fetch, FetchCount, FetchTo, ForeignKeySpec,
    FunctionName, FunctionStatement, IndexKeySource, IndexKeySpec, Like, LikeOption, Name,
    OnCommit, ParameterSpec, PartitionBy, PartitionOfSpec, Persistence, RangeValueSpec, Reindex,
    ReindexTarget, Rename, RenameTarget, RowsOf, SequenceOptions, SetCommand, TraitChanges,
    TransactionCommand, TransactionModes, TriggerStatement, TypeStatement, UserTypeName, Utility,
    Vacuum, VacuumTarget, WhichTriggers, alter_tag,
};
