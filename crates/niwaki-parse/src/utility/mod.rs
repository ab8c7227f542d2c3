//! Utility statements: definitions, transactions, settings, maintenance, COPY.
//!
//! [`read`] turns a syntax tree into a [`Utility`]. It checks everything that needs no catalog. The
//! session executes the result.

mod comment;
mod create_as;
mod cursor;
mod database;
mod domain;
mod extension;
mod foreign_key;
mod function;
mod partition;
mod read;
mod read_copy;
mod read_definition;
mod read_table;
mod statement;
mod table;
#[cfg(test)]
mod tests;
mod trigger;
mod type_name;
mod types;
mod view;

pub use comment::CommentTarget;
pub use create_as::{CreateAsForm, CreateTableAs, RowsOf};
pub use cursor::{DeclareCursor, Fetch, FetchCount, FetchTo};
pub use database::{DatabaseOptions, DatabaseStatement};
pub use domain::{DomainAction, DomainSpec};
pub use extension::{EXTENSIONS, Extension};
pub use foreign_key::ForeignKeySpec;
pub use function::{
    ArgumentType, CreateFunction, FunctionName, FunctionStatement, ParameterSpec, TraitChanges,
    check_language,
};
pub use partition::{BoundSpec, PartitionBy, PartitionOfSpec, RangeValueSpec};
pub use read::query_text;
pub use read::{expression_text, read};
pub use statement::{
    AlterColumn, AlterCommand, ColumnChoice, Copy, CopyDirection, CopyOptions, CopySource, Csv,
    Drop, IndexCleanup, LockMode, Name, Reindex, ReindexTarget, Rename, RenameTarget,
    SequenceOptions, SetCommand, TransactionCommand, TransactionModes, Utility, Vacuum,
    VacuumTarget,
};
pub use table::{
    ColumnSpec, ConstraintSpec, ConstraintSpecKind, CreateIndex, CreateTable, IndexKeySource,
    IndexKeySpec, Like, LikeOption, OnCommit, Persistence,
};
pub use trigger::{CreateTrigger, TriggerStatement, WhichTriggers};
pub use type_name::column_type;
pub use types::{AttributeSpec, TypeStatement, UserTypeName};
pub use view::CreateView;
