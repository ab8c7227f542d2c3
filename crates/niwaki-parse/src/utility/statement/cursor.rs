//! DECLARE, FETCH and MOVE: statements on named cursors.

use pg_query::NodeEnum;
use pg_query::protobuf::{LockClauseStrength, SelectStmt};

use crate::error::{Result, SqlError};
use crate::tree::SyntaxTree;

/// DECLARE … CURSOR FOR
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    /// Name.
    pub name: String,
    /// The query, a `SelectStmt`.
    pub query: SyntaxTree,
    /// SCROLL or NO SCROLL, if given.
    pub scroll: Option<bool>,
    /// WITH HOLD: the cursor outlives its transaction.
    pub hold: bool,
    /// BINARY: a simple query gets its rows in binary form.
    pub binary: bool,
    /// INSENSITIVE. Every cursor is insensitive, but one with this word must not lock rows.
    pub insensitive: bool,
}

impl DeclareCursor {
    /// Refuses options that a cursor whose query locks rows cannot have.
    ///
    /// # Errors
    /// 0A000, 42P11.
    pub fn check_locks(&self) -> Result<()> {
        let NodeEnum::SelectStmt(select) = &*self.query else { return Ok(()) };
        let Some(clause) = lock_clause(select) else { return Ok(()) };
        let refused = |sqlstate, message: String, kind: &str| {
            let detail = format!("{kind} cursors must be READ ONLY.");
            Err(SqlError::new(sqlstate, message).with_detail(detail))
        };
        if self.hold {
            let message = format!("DECLARE CURSOR WITH HOLD ... {clause} is not supported");
            return refused("0A000", message, "Holdable");
        }
        if self.scroll == Some(true) {
            let message = format!("DECLARE SCROLL CURSOR ... {clause} is not supported");
            return refused("0A000", message, "Scrollable");
        }
        if self.insensitive {
            let message = format!("DECLARE INSENSITIVE CURSOR ... {clause} is not valid");
            return refused("42P11", message, "Insensitive");
        }
        Ok(())
    }
}

/// A number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchCount {
    /// This number.
    Rows(u64),
    /// All rows.
    All,
}

/// The rows that FETCH returns or MOVE skips, with the new position of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchTo {
    /// The next rows.
    Forward(FetchCount),
    /// The previous rows, from the nearest on.
    Backward(FetchCount),
    /// The row with this number: from the end if negative, no row if 0.
    Absolute(i64),
    /// The row at this distance after the current row, or before it if negative.
    Relative(i64),
}

/// FETCH, MOVE
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Cursor.
    pub name: String,
    /// The direction and number of rows.
    pub to: FetchTo,
    /// True for MOVE: rows are skipped, not returned.
    pub is_move: bool,
}

/// Returns the name of the query's first locking clause.
fn lock_clause(select: &SelectStmt) -> Option<&'static str> {
    let clause = select.locking_clause.first()?;
    let Some(NodeEnum::LockingClause(clause)) = &clause.node else { return None };
    if select.from_clause.is_empty() {
        return None;
    }
    Some(match clause.strength() {
        LockClauseStrength::LcsForkeyshare => "FOR KEY SHARE",
        LockClauseStrength::LcsForshare => "FOR SHARE",
        LockClauseStrength::LcsFornokeyupdate => "FOR NO KEY UPDATE",
        _ => "FOR UPDATE",
    })
}
