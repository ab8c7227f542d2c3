//! Utility statements as data: what a syntax tree says, checked as far as no catalog is needed.

mod alter;
mod comment;
mod copy;
mod create_as;
mod cursor;
mod database;
mod domain;
mod extension;
mod function;
mod kinds;
mod maintenance;
mod name;
mod partition;
mod rename;
mod sequence;
mod table;
mod transaction;
mod trigger;
mod user_type;

pub use alter::{AlterColumn, AlterCommand};
pub use comment::CommentTarget;
pub use copy::{ColumnChoice, Copy, CopyDirection, CopyOptions, CopySource, Csv};
pub use create_as::{CreateAsForm, CreateTableAs, CreateView, RowsOf};
pub use cursor::{DeclareCursor, Fetch, FetchCount, FetchTo};
pub use database::{DatabaseOptions, DatabaseStatement};
pub use domain::{DomainAction, DomainSpec};
pub use extension::Extension;
pub use function::{
    ArgumentType, CreateFunction, FunctionName, FunctionStatement, ParameterSpec, TraitChanges,
};
pub use kinds::Utility;
pub use maintenance::{Reindex, ReindexTarget, Vacuum, VacuumTarget};
pub use name::Name;
pub use partition::{BoundSpec, PartitionBy, PartitionOfSpec, RangeValueSpec};
pub use rename::{Drop, Rename, RenameTarget, alter_tag};
pub use sequence::SequenceOptions;
pub use table::{
    ColumnSpec, ConstraintSpec, ConstraintSpecKind, CreateIndex, CreateTable, ForeignKeySpec,
    IndexKeySource, IndexKeySpec, Like, LikeOption, OnCommit, Persistence,
};
pub use transaction::{SetCommand, TransactionCommand, TransactionModes};
pub use trigger::{CreateTrigger, TriggerStatement, WhichTriggers};
pub use user_type::{AttributeSpec, TypeStatement, UserTypeName};
