//! DECLARE, FETCH and MOVE: statements on named cursors.

use pg_query::NodeEnum;
use pg_query::protobuf::{DeclareCursorStmt, FetchDirection, FetchStmt};

use super::nodes::{boxed, unexpected};
use crate::error::{Result, SqlError};
use crate::parse::part;
use crate::utility::statement::{DeclareCursor, Fetch, FetchCount, FetchTo, Utility};

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
