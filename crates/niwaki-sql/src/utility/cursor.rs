//! DECLARE, FETCH and MOVE: cursors by their names.

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
    /// SCROLL or NO SCROLL, if one is said.
    pub scroll: Option<bool>,
    /// WITH HOLD: it outlives its transaction.
    pub hold: bool,
    /// BINARY: a simple query gets its rows in binary form.
    pub binary: bool,
    /// INSENSITIVE. Every cursor is; this one may not lock rows.
    pub insensitive: bool,
}

impl DeclareCursor {
    /// Refuses what no cursor whose query locks rows can be.
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

/// What the first clause is called by which the query locks rows.
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

/// How many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchCount {
    /// So many.
    Rows(u64),
    /// All.
    All,
}

/// Which rows FETCH gives and MOVE passes, and where the cursor is afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchTo {
    /// Those that come next.
    Forward(FetchCount),
    /// Those before, from the nearest on.
    Backward(FetchCount),
    /// The row of this number; from the end if negative, none if 0.
    Absolute(i64),
    /// The row so many behind this one, or before it.
    Relative(i64),
}

/// FETCH, MOVE
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Cursor.
    pub name: String,
    /// Where to.
    pub to: FetchTo,
    /// MOVE: rows are passed, not given.
    pub is_move: bool,
}

pub(super) fn declare(s: &DeclareCursorStmt, source: &str) -> Result<Utility> {
    // Bits of the grammar's.
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
    // What the grammar has for ALL; numbers of a statement are shorter.
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
