//! PL/pgSQL for the bodies of row triggers: assignments to columns of `NEW` and `OLD`, and RETURN.
//!
//! [`read_body`] refuses everything else by name, when the function is created. Expressions stay
//! text, as in PostgreSQL: their names are resolved when a statement fires the trigger.

mod expression;
mod lexer;
mod reader;

pub use reader::read_body;

/// One of the two rows that a body names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowName {
    /// `NEW`
    New,
    /// `OLD`
    Old,
}

impl RowName {
    /// Returns the name as expressions write it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
        }
    }

    /// Returns the row of this name, in lower case.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        [Self::New, Self::Old].into_iter().find(|row| row.word() == word)
    }
}

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
