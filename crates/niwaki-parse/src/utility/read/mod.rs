//! Reads utility statements from syntax trees.

mod comment;
mod copy;
mod create_as;
mod cursor;
mod database;
mod definition;
mod domain;
mod extension;
mod foreign_key;
mod function;
mod nodes;
mod partition;
mod setting;
mod statement;
mod table;
mod trigger;
mod type_name;
mod user_type;
mod view;

pub use database::check_database_tablespace;
pub use extension::EXTENSIONS;
pub use function::check_language;
pub use nodes::{expression_text, query_text};
pub use statement::read;
pub use type_name::column_type;
