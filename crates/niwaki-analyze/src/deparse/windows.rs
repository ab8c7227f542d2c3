//! Writes calls of window functions as text.
//!
//! A named window is written out at each use, which means the same.

use niwaki_expr::expr::{CastPurpose, Expr, ExprKind};
use niwaki_expr::query::{Bound, Exclusion, Frame, FrameMode, Window, WindowBody};
use niwaki_types::Datum;

use super::expression::{Parent, Writer};
use super::level::{Level, aggregate, direction, sort_key};

impl Level<'_> {
    /// Writes a call of a window function of this level.
    pub fn window(&self, number: usize, writer: &Writer<'_, '_>) -> String {
        let call = self.windowing.and_then(|windowing| windowing.calls.get(number));
        let window = call.and_then(|call| self.windowing?.windows.get(call.window));
        let (Some(call), Some(window)) = (call, window) else { return "?".to_owned() };
        let function = match &call.body {
            WindowBody::Function(function, arguments) => {
                format!("{}({})", function.name(), writer.list(arguments))
            }
            WindowBody::Aggregate(call) => aggregate(call, writer),
        };
        format!("{function} OVER ({})", definition(window, writer))
    }
}

fn definition(window: &Window, writer: &Writer<'_, '_>) -> String {
    let mut parts = Vec::new();
    if !window.partition.is_empty() {
        let keys: Vec<String> = window.partition.iter().map(|key| sort_key(key, writer)).collect();
        parts.push(format!("PARTITION BY {}", keys.join(", ")));
    }
    if !window.order.is_empty() {
        let keys = window
            .order
            .iter()
            .map(|key| sort_key(&key.expr, writer) + direction(key.descending, key.nulls_first));
        parts.push(format!("ORDER BY {}", keys.collect::<Vec<_>>().join(", ")));
    }
    parts.extend(frame(&window.frame, writer));
    parts.join(" ")
}

/// Writes the frame, unless it is the default frame.
fn frame(frame: &Frame, writer: &Writer<'_, '_>) -> Option<String> {
    let usual = frame.mode == FrameMode::Range
        && matches!(frame.start, Bound::UnboundedPreceding)
        && matches!(frame.end, Bound::CurrentRow)
        && frame.exclusion == Exclusion::None;
    if usual {
        return None;
    }
    let mode = match frame.mode {
        FrameMode::Rows => "ROWS",
        FrameMode::Range => "RANGE",
        FrameMode::Groups => "GROUPS",
    };
    // A distance is shown as the user gave it, without its conversion to a number of rows or
    // groups.
    let counted = frame.mode != FrameMode::Range;
    let distance = |offset: &Expr| match &offset.kind {
        ExprKind::Const(Datum::Int8(count)) if counted => count.to_string(),
        ExprKind::Cast { argument, purpose: CastPurpose::Implied, .. } => {
            writer.show(argument, Parent::Tight)
        }
        _ => writer.show(offset, Parent::Tight),
    };
    let bound = |bound: &Bound| match bound {
        Bound::UnboundedPreceding => "UNBOUNDED PRECEDING".to_owned(),
        Bound::Preceding(offset) => format!("{} PRECEDING", distance(offset)),
        Bound::CurrentRow => "CURRENT ROW".to_owned(),
        Bound::Following(offset) => format!("{} FOLLOWING", distance(offset)),
        Bound::UnboundedFollowing => "UNBOUNDED FOLLOWING".to_owned(),
    };
    let exclusion = match frame.exclusion {
        Exclusion::None => "",
        Exclusion::CurrentRow => " EXCLUDE CURRENT ROW",
        Exclusion::Group => " EXCLUDE GROUP",
        Exclusion::Ties => " EXCLUDE TIES",
    };
    let (start, end) = (bound(&frame.start), bound(&frame.end));
    Some(format!("{mode} BETWEEN {start} AND {end}{exclusion}"))
}
