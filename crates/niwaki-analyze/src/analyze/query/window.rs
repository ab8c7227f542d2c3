//! Window functions: analyzes WINDOW and OVER clauses, and the calls over them.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::function::WindowFunction;
use niwaki_expr::query::{
    AggregateCall, Bound, Exclusion, Frame, FrameMode, SortKey, Window, WindowBody, WindowCall,
    expr_outer_slots, is_volatile,
};
use niwaki_parse::error::Result;
use niwaki_parse::types::{CastContext, cast_path};
use niwaki_types::TypeOid;
use pg_query::{Node, NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{NamedWindow, Place, Within};

/// Bits of [`protobuf::WindowDef::frame_options`].
pub(crate) mod options {
    pub(crate) const ROWS: i32 = 0x0_0004;
    pub(crate) const GROUPS: i32 = 0x0_0008;
    pub(crate) const START_UNBOUNDED_PRECEDING: i32 = 0x0_0020;
    pub(crate) const END_UNBOUNDED_FOLLOWING: i32 = 0x0_0100;
    pub(crate) const START_OFFSET_PRECEDING: i32 = 0x0_0800;
    pub(crate) const END_OFFSET_PRECEDING: i32 = 0x0_1000;
    pub(crate) const START_OFFSET_FOLLOWING: i32 = 0x0_2000;
    pub(crate) const END_OFFSET_FOLLOWING: i32 = 0x0_4000;
    pub(crate) const EXCLUDE_CURRENT_ROW: i32 = 0x0_8000;
    pub(crate) const EXCLUDE_GROUP: i32 = 0x1_0000;
    pub(crate) const EXCLUDE_TIES: i32 = 0x2_0000;
    /// RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW by default. If the statement spells it
    /// out, another bit is set, too.
    pub(crate) const DEFAULTS: i32 = niwaki_parse::tree::FRAME_DEFAULTS;
}

impl Analyzer<'_> {
    /// Analyzes the WINDOW clause.
    pub(crate) fn window_clause(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            let Some(NodeEnum::WindowDef(definition)) = &node.node else { continue };
            let names = &self.scope()?.window_names;
            if names.iter().any(|known| known.name == definition.name) {
                let message = format!("window \"{}\" is already defined", definition.name);
                return Err(self.error("42P20", message, definition.location));
            }
            let window = self.window_definition(definition)?;
            let named = NamedWindow {
                name: definition.name.clone(),
                window,
                frame_is_default: frame_is_default(definition),
            };
            let scope = self.scope()?;
            scope.windowing.windows.push(named.window.clone());
            scope.window_names.push(named);
        }
        Ok(())
    }

    /// Returns the number of the window of an OVER clause.
    fn over(&mut self, definition: &protobuf::WindowDef) -> Result<usize> {
        let window = if definition.name.is_empty() {
            self.window_definition(definition)?
        } else {
            self.named_window(&definition.name, definition.location)?.window.clone()
        };
        let windows = &mut self.scope()?.windowing.windows;
        if let Some(known) = windows.iter().position(|known| known.same(&window)) {
            return Ok(known);
        }
        windows.push(window);
        Ok(windows.len() - 1)
    }

    fn named_window(&self, name: &str, location: i32) -> Result<&NamedWindow> {
        let names = self.scopes.last().map(|scope| &scope.window_names);
        names.and_then(|names| names.iter().find(|known| known.name == name)).ok_or_else(|| {
            self.error("42704", format!("window \"{name}\" does not exist"), location)
        })
    }

    fn window_definition(&mut self, definition: &protobuf::WindowDef) -> Result<Window> {
        let place = self.scope()?.place;
        let within = std::mem::replace(&mut self.scope()?.within, Within::Nothing);
        let result = self.window_parts(definition);
        let scope = self.scope()?;
        scope.within = within;
        scope.place = place;
        result
    }

    fn window_parts(&mut self, definition: &protobuf::WindowDef) -> Result<Window> {
        let location = definition.location;
        let own_order = self.window_order(&definition.order_clause)?;
        let own_partition = self.window_partition(&definition.partition_clause)?;
        let has_order = !own_order.is_empty();
        let (mut partition, mut order) = (own_partition, own_order);
        if !definition.refname.is_empty() {
            let name = &definition.refname;
            let base = self.named_window(name, location)?;
            let (base_partition, base_order) =
                (base.window.partition.clone(), base.window.order.clone());
            let frame_is_default_there = base.frame_is_default;
            let refuse = |what: &str| {
                let message = format!("cannot override {what} clause of window \"{name}\"");
                Err(self.error("42P20", message, location))
            };
            if !partition.is_empty() {
                return refuse("PARTITION BY");
            }
            if has_order && !base_order.is_empty() {
                return refuse("ORDER BY");
            }
            if !frame_is_default_there {
                let message =
                    format!("cannot copy window \"{name}\" because it has a frame clause");
                let error = self.error("42P20", message, location);
                // OVER (name) copies the window; OVER name would not.
                let bare = definition.name.is_empty() && !has_order && frame_is_default(definition);
                return Err(if bare {
                    error.with_hint("Omit the parentheses in this OVER clause.")
                } else {
                    error
                });
            }
            partition = base_partition;
            if !has_order {
                order = base_order;
            }
        }
        let frame = self.frame(definition, &order)?;
        Ok(Window { partition, order, frame })
    }

    fn window_order(&mut self, nodes: &[Node]) -> Result<Vec<SortKey>> {
        self.set_place(Place::WindowOrder)?;
        let mut order: Vec<SortKey> = Vec::new();
        for node in nodes {
            let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
            let (expr, descending, nulls_first) = self.own_sort_key(sort)?;
            let expr = self.window_key(expr)?;
            if !order.iter().any(|known| known.expr.same(&expr)) {
                order.push(SortKey { expr, descending, nulls_first });
            }
        }
        Ok(order)
    }

    fn window_partition(&mut self, nodes: &[Node]) -> Result<Vec<Expr>> {
        self.set_place(Place::WindowPartition)?;
        let mut partition: Vec<Expr> = Vec::new();
        for node in nodes {
            let expr = self.expr(node)?;
            let expr = self.window_key(expr)?;
            if !self.is_ordered("=", &expr) {
                let ty = self.format_oid(expr.ty);
                let message = format!("could not identify an equality operator for type {ty}");
                return Err(self.error("42883", message, expr.location));
            }
            if !partition.iter().any(|known| known.same(&expr)) {
                partition.push(expr);
            }
        }
        Ok(partition)
    }

    fn window_key(&mut self, expr: Expr) -> Result<Expr> {
        if expr.any(&mut |part| matches!(part.kind, ExprKind::SetReturning(_))) {
            return Err(self.unsupported("a set-returning function in a window", expr.location));
        }
        self.to_output(expr)
    }

    fn frame(&mut self, definition: &protobuf::WindowDef, order: &[SortKey]) -> Result<Frame> {
        let (flags, location) = (definition.frame_options, definition.location);
        let has = |flag: i32| flags & flag != 0;
        let mode = if has(options::ROWS) {
            FrameMode::Rows
        } else if has(options::GROUPS) {
            FrameMode::Groups
        } else {
            FrameMode::Range
        };
        let with_offset = has(options::START_OFFSET_PRECEDING)
            || has(options::START_OFFSET_FOLLOWING)
            || has(options::END_OFFSET_PRECEDING)
            || has(options::END_OFFSET_FOLLOWING);
        if mode == FrameMode::Range && with_offset && order.len() != 1 {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.error("42P20", message, location));
        }
        if mode == FrameMode::Groups && order.is_empty() {
            let message = "GROUPS mode requires an ORDER BY clause";
            return Err(self.error("42P20", message, location));
        }
        let mut offset = |node: &Option<Box<Node>>| -> Result<Expr> {
            self.frame_offset(node.as_deref(), mode, order)
        };
        let start = if has(options::START_OFFSET_PRECEDING) {
            Bound::Preceding(offset(&definition.start_offset)?)
        } else if has(options::START_OFFSET_FOLLOWING) {
            Bound::Following(offset(&definition.start_offset)?)
        } else if has(options::START_UNBOUNDED_PRECEDING) {
            Bound::UnboundedPreceding
        } else {
            Bound::CurrentRow
        };
        let end = if has(options::END_OFFSET_PRECEDING) {
            Bound::Preceding(offset(&definition.end_offset)?)
        } else if has(options::END_OFFSET_FOLLOWING) {
            Bound::Following(offset(&definition.end_offset)?)
        } else if has(options::END_UNBOUNDED_FOLLOWING) {
            Bound::UnboundedFollowing
        } else {
            Bound::CurrentRow
        };
        let exclusion = if has(options::EXCLUDE_CURRENT_ROW) {
            Exclusion::CurrentRow
        } else if has(options::EXCLUDE_GROUP) {
            Exclusion::Group
        } else if has(options::EXCLUDE_TIES) {
            Exclusion::Ties
        } else {
            Exclusion::None
        };
        Ok(Frame { mode, start, end, exclusion })
    }

    fn frame_offset(
        &mut self,
        node: Option<&Node>,
        mode: FrameMode,
        order: &[SortKey],
    ) -> Result<Expr> {
        let (place, name) = match mode {
            FrameMode::Rows => (Place::WindowRows, "ROWS"),
            FrameMode::Range => (Place::WindowRange, "RANGE"),
            FrameMode::Groups => (Place::WindowGroups, "GROUPS"),
        };
        self.set_place(place)?;
        let expr = self.expr_of(node)?;
        let (from, location) = (expr.ty, expr.location);
        let (expr, wanted) = match (mode, order.first()) {
            (FrameMode::Range, Some(key)) => {
                let wanted = self.distance_type(key.expr.ty, from, location)?;
                (self.coerce(expr, wanted, CastContext::Implicit)?, wanted)
            }
            _ => (self.coerce(expr, TypeOid::INT8, CastContext::Assignment)?, TypeOid::INT8),
        };
        let Some(expr) = expr else {
            let message = format!(
                "argument of {name} must be type {}, not type {}",
                self.format_oid(wanted),
                self.format_oid(from)
            );
            return Err(self.error("42804", message, location));
        };
        let mut read = None;
        expr_outer_slots(&expr, 0, &mut |slot, level| {
            if matches!(slot.kind, ExprKind::Slot { depth, .. } if depth == level) {
                read.get_or_insert(slot.location);
            }
        });
        match read {
            Some(location) => {
                let message = format!("argument of {name} must not contain variables");
                Err(self.error("42P10", message, location))
            }
            None => Ok(expr),
        }
    }

    /// Returns the offset type for values of type `of`. `given` is the type of the offset
    /// expression.
    fn distance_type(&self, of: TypeOid, given: TypeOid, location: i32) -> Result<TypeOid> {
        let of = if of == TypeOid::UNKNOWN { TypeOid::TEXT } else { of };
        let candidates = distance_types(of);
        let refuse = |message: String, hint: Option<&str>| {
            let error = self.error("0A000", message, location);
            Err(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        };
        let column = self.format_oid(of);
        if candidates.is_empty() {
            let message = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {column}"
            );
            return refuse(message, None);
        }
        let matching: Vec<TypeOid> = candidates
            .iter()
            .copied()
            .filter(|candidate| {
                given == TypeOid::UNKNOWN
                    || cast_path(given, *candidate, CastContext::Implicit).is_some()
            })
            .collect();
        let preferred = if given == TypeOid::UNKNOWN { of } else { given };
        if matching.contains(&preferred) {
            return Ok(preferred);
        }
        let types = format!("column type {column} and offset type {}", self.format_oid(given));
        match matching.as_slice() {
            [only] => Ok(*only),
            [] => refuse(
                format!("RANGE with offset PRECEDING/FOLLOWING is not supported for {types}"),
                Some("Cast the offset value to an appropriate type."),
            ),
            _ => refuse(
                format!(
                    "RANGE with offset PRECEDING/FOLLOWING has multiple interpretations for {types}"
                ),
                Some("Cast the offset value to the exact intended type."),
            ),
        }
    }

    /// Refuses a call with OVER where window functions are not allowed.
    pub(crate) fn check_window_place(&mut self, location: i32) -> Result<()> {
        let scope = self.scope()?;
        let (place, within) = (scope.place, scope.within);
        if place.is_window() {
            let message = "window functions are not allowed in window definitions";
            return Err(self.error("42P20", message, location));
        }
        if !place.allows_windows() {
            let message = format!("window functions are not allowed in {}", place.name());
            return Err(self.error("42P20", message, location));
        }
        if let Some(message) = within.refusal() {
            return Err(self.error(within.sqlstate(), message, location));
        }
        Ok(())
    }

    /// Builds the call of a pure window function, with converted arguments.
    pub(crate) fn window_function(
        &mut self,
        call: &protobuf::FuncCall,
        function: WindowFunction,
        arguments: Vec<Expr>,
        result: TypeOid,
    ) -> Result<Expr> {
        let location = call.location;
        let name = names_of(&call.funcname).last().copied().unwrap_or_default();
        let Some(definition) = &call.over else {
            let message = format!("window function {name} requires an OVER clause");
            return Err(self.error("42809", message, location));
        };
        if call.agg_distinct {
            let message = "DISTINCT is not implemented for window functions";
            return Err(self.error("0A000", message, location));
        }
        if !call.agg_order.is_empty() {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(self.error("0A000", message, location));
        }
        if call.agg_filter.is_some() {
            let message = "FILTER is not implemented for non-aggregate window functions";
            return Err(self.error("0A000", message, location));
        }
        let window = self.over(definition)?;
        self.window_call(window, WindowBody::Function(function, arguments), result, location)
    }

    /// Builds an aggregate over a window.
    pub(crate) fn window_aggregate(
        &mut self,
        definition: &protobuf::WindowDef,
        call: AggregateCall,
        result: TypeOid,
        location: i32,
    ) -> Result<Expr> {
        if call.distinct {
            let message = "DISTINCT is not implemented for window functions";
            return Err(self.error("0A000", message, location));
        }
        if !call.order.is_empty() {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(self.error("0A000", message, location));
        }
        let window = self.over(definition)?;
        self.window_call(window, WindowBody::Aggregate(Box::new(call)), result, location)
    }

    fn window_call(
        &mut self,
        window: usize,
        body: WindowBody,
        result: TypeOid,
        location: i32,
    ) -> Result<Expr> {
        let calls = &mut self.scope()?.windowing.calls;
        // Equal calls in ORDER BY or DISTINCT ON share the one of the target list.
        let known = calls.iter().position(|c| c.window == window && is_same(&c.body, &body));
        let number = known.unwrap_or(calls.len());
        if known.is_none() {
            calls.push(WindowCall { window, body });
        }
        Ok(Expr::new(ExprKind::Window(number), result, location))
    }
}

fn frame_is_default(definition: &protobuf::WindowDef) -> bool {
    definition.frame_options == options::DEFAULTS
}

/// Returns the offset types that PostgreSQL supports for values of a type.
fn distance_types(of: TypeOid) -> &'static [TypeOid] {
    use TypeOid as T;
    match of {
        T::INT8 => &[T::INT8],
        T::INT4 => &[T::INT8, T::INT4, T::INT2],
        T::INT2 => &[T::INT8, T::INT4, T::INT2],
        T::FLOAT4 | T::FLOAT8 => &[T::FLOAT8],
        T::NUMERIC => &[T::NUMERIC],
        T::DATE | T::TIMESTAMP | T::TIMESTAMPTZ | T::INTERVAL | T::TIME | T::TIMETZ => {
            &[T::INTERVAL]
        }
        _ => &[],
    }
}

/// Returns whether two calls over one window have the same result.
fn is_same(one: &WindowBody, other: &WindowBody) -> bool {
    match (one, other) {
        (WindowBody::Function(f, a), WindowBody::Function(g, b)) => {
            f == g
                && a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.same(b) && !is_volatile(a))
        }
        (WindowBody::Aggregate(a), WindowBody::Aggregate(b)) => {
            crate::analyze::expression::function_call::is_same(a, b)
        }
        _ => false,
    }
}
