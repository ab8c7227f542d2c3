//! DECLARE, FETCH and MOVE: statements on named cursors.

use std::sync::Arc;

use niwaki_env::stack::Deep;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    DeclareCursorStmt, FetchDirection, FetchStmt, LockClauseStrength, SelectStmt,
};

use super::read::{boxed, unexpected};
use super::statement::Utility;
use crate::error::{Result, SqlError};
use crate::parse::part;

/// DECLARE … CURSOR FOR
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    /// Name.
    pub name: String,
    /// The query, a `SelectStmt`.
    pub query: Arc<Deep<NodeEnum>>,
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
        let NodeEnum::SelectStmt(select) = &**self.query else { return Ok(()) };
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

pub(super) fn declare(s: &DeclareCursorStmt, source: &str) -> Result<Utility> {
    // Bits of the grammar.
    let said = |option: i32| s.options & option != 0;
    let (binary, scroll, no_scroll) = (said(0x0001), said(0x0002), said(0x0004));
    let (insensitive, asensitive, hold) = (said(0x0008), said(0x0010), said(0x0020));
    let both = |one: &str, other: &str| {
        let message = format!("cannot specify both {one} and {other}");
        Err(SqlError::new("42P11", message))
    };
    if scroll && no_scroll {
        return both("SCROLL", "NO SCROLL");
    }
    if asensitive && insensitive {
        return both("ASENSITIVE", "INSENSITIVE");
    }
    let query = boxed(s.query.as_deref(), "DECLARE")?;
    if !matches!(query, NodeEnum::SelectStmt(_)) {
        return Err(unexpected("DECLARE"));
    }
    Ok(Utility::DeclareCursor(Box::new(DeclareCursor {
        name: s.portalname.clone(),
        query: part(query, source),
        scroll: (scroll || no_scroll).then_some(scroll),
        hold,
        binary,
        insensitive,
    })))
}

pub(super) fn fetch(s: &FetchStmt) -> Result<Utility> {
    // The grammar's value for ALL. Numbers in a statement are smaller.
    let count = match s.how_many {
        i64::MAX => FetchCount::All,
        rows => FetchCount::Rows(rows.unsigned_abs()),
    };
    let back = s.how_many < 0;
    let to = match s.direction() {
        FetchDirection::FetchForward if back => FetchTo::Backward(count),
        FetchDirection::FetchForward => FetchTo::Forward(count),
        FetchDirection::FetchBackward if back => FetchTo::Forward(count),
        FetchDirection::FetchBackward => FetchTo::Backward(count),
        FetchDirection::FetchAbsolute => FetchTo::Absolute(s.how_many),
        FetchDirection::FetchRelative => FetchTo::Relative(s.how_many),
        FetchDirection::Undefined => return Err(unexpected("FETCH")),
    };
    Ok(Utility::Fetch(Fetch { name: s.portalname.clone(), to, is_move: s.ismove }))
}
