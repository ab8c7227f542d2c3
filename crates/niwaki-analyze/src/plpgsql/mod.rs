//! PL/pgSQL for the bodies of row triggers: assignments to columns of `NEW` and `OLD`, and RETURN.
//!
//! [`read_body`] refuses everything else by name, when the function is created. Expressions stay
//! text, as in PostgreSQL: their names are resolved when a statement fires the trigger.

mod expression;
mod lexer;
mod reader;

use niwaki_expr::query::RowName;

pub use reader::read_body;

/// A statement of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyStatement {
    /// The line of the body in which it begins, from 1.
    pub line: u32,
    /// The action of the statement.
    pub action: BodyAction,
}

/// The action of a statement of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyAction {
    /// `NEW.column := expression;`
    Assign {
        /// The row.
        row: RowName,
        /// Its column.
        column: String,
        /// The statement without the semicolon, as errors show it.
        text: String,
        /// The expression's text.
        expression: String,
    },
    /// `RETURN NEW;`, `RETURN OLD;`, `RETURN NULL;`
    Return(Option<RowName>),
    /// `NULL;`
    Nothing,
}
