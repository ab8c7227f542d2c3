//! Calls of functions, aggregates and set-returning functions.

use niwaki_expr::expr::collation::STRING_COMPARISON;
use niwaki_expr::expr::{Collation, Expr, ExprKind};
use niwaki_expr::function::{AggregateKind, OrderedSet};
use niwaki_expr::function::{Eval, Function};
use niwaki_expr::query::{AggregateCall, SetCall, SetFunction, is_volatile};
use niwaki_functions::aggregates::{aggregates_named, is_aggregate};
use niwaki_functions::functions::{functions_named, of_json_objects, variadic_forms};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{
    ANY, ANY_ELEMENT, ANY_NONARRAY, CastContext, CastPath, cast_path, category, element_of,
    type_by_name,
};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::{Node, NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::expression::call::{NoMatch, choose};
use crate::analyze::expression::named_arguments::has_names;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Place, Within};
use crate::analyze::query::group_by::level_of;

/// The aggregate that a call names, for arguments of given types.
struct ChosenAggregate {
    kind: AggregateKind,
    /// Declared types of the parameters. Empty if the parameters have the types of the arguments.
    declared: &'static [TypeOid],
    /// Types that the arguments get.
    wanted: Vec<TypeOid>,
    result: TypeOid,
}

impl Analyzer<'_> {
    pub(crate) fn function_call(&mut self, call: &protobuf::FuncCall) -> Result<Expr> {
        let location = call.location;
        let names = names_of(&call.funcname);
        let Some(name) = names.last().copied() else {
            return Err(SqlError::internal("call without a name"));
        };
        // The grammar produces json_object itself, and adds the schema.
        let shown = if name == "json_object" { name.to_owned() } else { names.join(".") };
        if let Some(expr) = self.numbered_call(call)? {
            return Ok(expr);
        }
        // A function outside pg_catalog is not found by its name alone.
        let builtin_schema = functions_named(name).first().map_or("pg_catalog", |f| f.schema());
        let builtin_too = match names.as_slice() {
            [_] => builtin_schema == "pg_catalog",
            names => names[0] == builtin_schema,
        };
        let of_users = self.functions_of_users(call, &names);
        if !of_users.is_empty() {
            return self.call_among_users(call, name, &shown, of_users, builtin_too);
        }
        if !builtin_too {
            if let [schema, _] = names.as_slice()
                && self.context.catalog.schema_by_name(schema).is_none()
            {
                return Err(SqlError::undefined_schema(schema).with_position(self.at(location)));
            }
            let types = self.argument_types(&call.args)?;
            return Err(self.function_error(&shown, &types, location, &NoMatch::None));
        }
        if let Some(function) = of_json_objects(name) {
            return self.value_of_objects(call, function);
        }
        if niwaki_functions::functions::is_unsupported(name) {
            return Err(self.unsupported(format!("function {name}"), location));
        }
        let hypothetical = call.agg_within_group && OrderedSet::hypothetical(name).is_some();
        if is_aggregate(name) || hypothetical {
            if call.func_variadic {
                return Err(self.unsupported("VARIADIC in an aggregate", location));
            }
            return self.aggregate(call, name);
        }
        if call.agg_within_group {
            // The sort keys of WITHIN GROUP are arguments, too.
            let keys = call.agg_order.iter().filter_map(|node| match &node.node {
                Some(NodeEnum::SortBy(sort)) => sort.node.as_deref(),
                _ => None,
            });
            let types = self.argument_types(call.args.iter().chain(keys))?;
            choose(functions_named(name), &types)
                .map_err(|reason| self.function_error(&shown, &types, location, &reason))?;
            self.refuse_aggregate_syntax(call, &shown)?;
        }
        if functions_named(name).iter().any(|function| matches!(function.eval, Eval::Window(_))) {
            if OrderedSet::hypothetical(name).is_some() && !call.args.is_empty() {
                let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
                return Err(self.error("42809", message, location));
            }
            return self.call_over_window(call, name, &shown);
        }
        self.refuse_aggregate_syntax(call, &shown)?;
        let arguments = if has_names(call) {
            self.named_arguments(call, name)?
        } else {
            self.exprs(&call.args)?
        };
        self.call_of_builtin(call, name, &shown, arguments)
    }

    /// Refuses syntax that only calls of aggregates can have.
    pub(crate) fn refuse_aggregate_syntax(
        &self,
        call: &protobuf::FuncCall,
        shown: &str,
    ) -> Result<()> {
        let only_for_aggregates = [
            (call.agg_star, format!("{shown}(*)")),
            (call.agg_distinct, "DISTINCT".to_owned()),
            (call.agg_within_group, "WITHIN GROUP".to_owned()),
            (!call.agg_order.is_empty(), "ORDER BY".to_owned()),
            (call.agg_filter.is_some(), "FILTER".to_owned()),
        ];
        let Some((_, what)) = only_for_aggregates.iter().find(|(given, _)| *given) else {
            return Ok(());
        };
        let message = format!("{what} specified, but {shown} is not an aggregate function");
        Err(self.error("42809", message, call.location))
    }

    /// Analyzes a call of a built-in function that is no aggregate.
    pub(crate) fn call_of_builtin(
        &mut self,
        call: &protobuf::FuncCall,
        name: &str,
        shown: &str,
        mut arguments: Vec<Expr>,
    ) -> Result<Expr> {
        let location = call.location;
        let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
        let declared: Vec<TypeOid> = arguments.iter().map(Expr::declared).collect();
        if name == "pg_typeof" && arguments.len() == 1 {
            return Ok(Expr::constant(Datum::Oid(declared[0].0), TypeOid::REGTYPE, location));
        }
        if name == "pg_collation_for"
            && let [value] = arguments.as_slice()
        {
            return self.collation_for(value, location);
        }
        if matches!((name, types.as_slice()), ("to_json" | "to_jsonb", [TypeOid::UNKNOWN])) {
            return Err(self.polymorphic_unknown(location));
        }
        // In pg_lsn('0/1') or date('today'), a type's name with a literal is a cast. It takes
        // precedence over functions of that name.
        if let (Some(oid), [TypeOid::UNKNOWN]) = (type_by_name(name), types.as_slice())
            && !call.func_variadic
            && !matches!(category(oid), 'P' | 'X')
            && let Some(argument) = arguments.pop()
        {
            self.refuse_over(call, shown)?;
            return self.cast(argument, ColumnType::new(oid), location);
        }
        let candidates = if call.func_variadic {
            if types.last().is_some_and(|t| element_of(*t).is_none() && *t != TypeOid::UNKNOWN) {
                return Err(self.error("42804", "VARIADIC argument must be an array", location));
            }
            variadic_forms(name)
        } else {
            functions_named(name)
        };
        let resolved = match choose(candidates, &types) {
            Ok(resolved) => resolved,
            Err(reason) => {
                // In name(row), the name is a field.
                if let [value] = arguments.as_slice()
                    && call.funcname.len() == 1
                    && self.has_field(value, name)?
                    && let Some(value) = arguments.pop()
                {
                    self.refuse_over(call, shown)?;
                    return self.field(value, name);
                }
                // In text(x) or int4(x), a type's name as a function is a cast, but rows do not
                // become texts this way.
                let rows_as_text = |oid: TypeOid| {
                    let row = |ty: &TypeOid| *ty == TypeOid::RECORD || ty.is_composite();
                    category(oid) == 'S' && types.iter().any(row)
                };
                if let (Some(oid), [_]) = (type_by_name(name), types.as_slice())
                    && !rows_as_text(oid)
                    && let Some(argument) = arguments.pop()
                {
                    self.refuse_over(call, shown)?;
                    return self.cast(argument, ColumnType::new(oid), location);
                }
                if let (Some(of_user), [ty]) = (self.type_as_function(call), types.as_slice())
                    && (*ty == TypeOid::UNKNOWN
                        || cast_path(*ty, of_user.oid, CastContext::Explicit)
                            == Some(CastPath::Relabel))
                    && let Some(argument) = arguments.pop()
                {
                    self.note_type(location, of_user.declared())?;
                    return self.cast(argument, of_user, location);
                }
                return Err(self.function_error(shown, &declared, location, &reason));
            }
        };
        self.refuse_over(call, shown)?;
        let mut converted = Vec::with_capacity(arguments.len());
        for (number, (argument, ty)) in arguments.into_iter().zip(&resolved.arguments).enumerate() {
            if shown_as_text(resolved.function, number, *ty) {
                converted.push(self.cast(argument, ColumnType::new(TypeOid::TEXT), location)?);
                continue;
            }
            converted.push(
                self.coerce(argument, *ty, CastContext::Implicit)?
                    .ok_or_else(|| self.function_error(shown, &types, location, &NoMatch::None))?,
            );
        }
        if resolved.function.returns_set() {
            let function = niwaki_functions::functions::under(
                resolved.function,
                Collation::of_all(&converted),
            );
            let function = SetFunction::Builtin(function);
            return self.set_call(function, converted, resolved.result.into(), location);
        }
        let own_syntax = call.funcformat() == protobuf::CoercionForm::CoerceSqlSyntax;
        let value = niwaki_functions::functions::call(
            resolved.function,
            converted,
            resolved.result,
            location,
        );
        Ok(Expr { own_syntax, ..value })
    }

    /// Refuses OVER after a function that is neither an aggregate nor a window function.
    pub(crate) fn refuse_over(&self, call: &protobuf::FuncCall, shown: &str) -> Result<()> {
        if call.over.is_none() {
            return Ok(());
        }
        let message = format!(
            "OVER specified, but {shown} is not a window function nor an aggregate function"
        );
        Err(self.error("42809", message, call.location))
    }

    /// Returns the user's type of a function's name. Calling the type converts if the conversion
    /// only relabels the value.
    fn type_as_function(&self, call: &protobuf::FuncCall) -> Option<ColumnType> {
        let names = names_of(&call.funcname);
        let (name, schema) = names.split_last()?;
        self.user_type(call.location, schema.last().copied(), name)
    }

    pub(crate) fn polymorphic_unknown(&self, location: i32) -> SqlError {
        let message = "could not determine polymorphic type because input has type unknown";
        self.error("42804", message, location)
    }

    fn argument_types<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) -> Result<Vec<TypeOid>> {
        nodes.into_iter().map(|node| Ok(self.expr(node)?.ty)).collect()
    }

    /// Analyzes a call of a pure window function.
    fn call_over_window(
        &mut self,
        call: &protobuf::FuncCall,
        name: &str,
        shown: &str,
    ) -> Result<Expr> {
        let location = call.location;
        if call.over.is_some() {
            self.check_window_place(location)?;
        }
        let within = std::mem::replace(&mut self.scope()?.within, Within::Window);
        let arguments = self.exprs(&call.args);
        self.scope()?.within = within;
        let arguments = arguments?;
        let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
        let resolved = choose(functions_named(name), &types)
            .map_err(|reason| self.function_error(shown, &types, location, &reason))?;
        let Eval::Window(function) = resolved.function.eval else {
            return Err(SqlError::internal("a window function that is none"));
        };
        let untyped = types.first() == Some(&TypeOid::UNKNOWN);
        if untyped && resolved.function.arguments.first() == Some(&ANY_ELEMENT) {
            return Err(self.polymorphic_unknown(location));
        }
        let mut converted = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.into_iter().zip(&resolved.arguments) {
            converted.push(
                self.coerce(argument, *ty, CastContext::Implicit)?
                    .ok_or_else(|| self.function_error(shown, &types, location, &NoMatch::None))?,
            );
        }
        let derived = Collation::of_call(&converted, resolved.result);
        let call = self.window_function(call, function, converted, resolved.result)?;
        Ok(Expr { derived, ..call })
    }

    pub(crate) fn set_call(
        &mut self,
        function: SetFunction,
        arguments: Vec<Expr>,
        result: ColumnType,
        location: i32,
    ) -> Result<Expr> {
        let place = self.scope()?.place;
        if !place.allows_sets() {
            return Err(self.error(
                "0A000",
                format!("set-returning functions are not allowed in {}", place.name()),
                location,
            ));
        }
        // Only FROM notes, and so locks, the table that a call reads.
        if let SetFunction::Builtin(function) = &function
            && function.arguments.contains(&TypeOid::REGCLASS)
            && function.columns().is_some()
            && place != Place::From
        {
            return Err(self.error(
                "0A000",
                format!("{} has several columns, and is allowed in FROM only", function.name),
                location,
            ));
        }
        let is_set = |part: &Expr| matches!(part.kind, ExprKind::SetReturning(_));
        if arguments.iter().any(|argument| argument.any(&mut |part| is_set(part))) {
            return Err(self.unsupported("a set-returning function inside another", location));
        }
        let scope = self.scope()?;
        let calls = match scope.within {
            Within::Nothing => None,
            Within::Aggregate => Some("aggregate"),
            Within::Window => Some("window"),
        };
        if let Some(calls) = calls {
            let message =
                format!("{calls} function calls cannot contain set-returning function calls");
            return Err(self.error("0A000", message, location).with_hint(
                "You might be able to move the set-returning function into a LATERAL FROM item.",
            ));
        }
        let scope = self.scope()?;
        let number = scope.sets.len();
        let derived = Collation::of_call(&arguments, result.oid);
        scope.sets.push(SetCall { function, arguments });
        let call = Expr::new(ExprKind::SetReturning(number), result.oid, location);
        Ok(Expr { typmod: result.typmod, domain: result.domain, derived, ..call })
    }

    /// Refuses set-returning functions in constructs that do not evaluate them for every row.
    pub(crate) fn refuse_sets_in(&self, value: Expr, construct: &str) -> Result<Expr> {
        let mut place = None;
        value.any(&mut |part| {
            let is_set = matches!(part.kind, ExprKind::SetReturning(_));
            place = place.or(is_set.then_some(part.location));
            is_set
        });
        let Some(location) = place else { return Ok(value) };
        let message = format!("set-returning functions are not allowed in {construct}");
        Err(self.error("0A000", message, location).with_hint(
            "You might be able to move the set-returning function into a LATERAL FROM item.",
        ))
    }

    fn aggregate(&mut self, call: &protobuf::FuncCall, name: &str) -> Result<Expr> {
        let location = call.location;
        let over = call.over.as_deref();
        let place = self.scope()?.place;
        let within = self.scope()?.within;
        self.scope()?.within = if over.is_some() { Within::Window } else { Within::Aggregate };
        let inside = self.aggregate_parts(call);
        let scope = self.scope()?;
        scope.within = within;
        scope.place = place;
        let (mut arguments, filter, mut order) = inside?;
        if over.is_some() {
            self.check_window_place(location)?;
        } else if !place.allows_aggregates() {
            return Err(self.error(
                "42803",
                format!("aggregate functions are not allowed in {}", place.name()),
                location,
            ));
        }
        if within == Within::Aggregate {
            return Err(self.error("42803", "aggregate function calls cannot be nested", location));
        }
        // The sort keys of WITHIN GROUP are arguments, too.
        let direct = call.agg_within_group.then_some(arguments.len());
        if direct.is_some() {
            arguments.extend(order.iter().map(|(key, ..)| key.clone()));
        }
        let parts = arguments.iter().chain(&filter).chain(order.iter().map(|(key, ..)| key));
        if over.is_none() && level_of(parts) > 0 {
            // The aggregate would be computed here, over the wrong rows.
            return Err(self.unsupported("an aggregate of a query further out", location));
        }
        let ChosenAggregate { kind, declared, wanted, result } =
            self.choose_aggregate(call, name, &arguments, direct)?;
        self.check_within_group(kind, name, call)?;
        let position = |key: &Expr| arguments.iter().position(|argument| argument.same(key));
        let positions: Vec<_> = order.iter().map(|(key, ..)| position(key)).collect();
        let mut converted = Vec::with_capacity(arguments.len());
        for (number, (argument, ty)) in arguments.into_iter().zip(&wanted).enumerate() {
            // A parameter that accepts any value accepts a domain value unchanged.
            let any = declared
                .get(number)
                .is_some_and(|ty| [ANY, ANY_ELEMENT, ANY_NONARRAY].contains(ty));
            let domain = argument.domain.filter(|_| any);
            converted.push(Expr { domain, ..self.to_common(argument, *ty, name)? });
        }
        if call.agg_distinct
            && let Some(argument) = converted.iter().find(|a| !self.is_ordered("=", a))
        {
            let ty = self.format_oid(argument.ty);
            let message = format!("could not identify an equality operator for type {ty}");
            return Err(self.error("42883", message, argument.location));
        }
        if call.agg_distinct && over.is_none() {
            self.take_sort_keys(&positions, &converted, &mut order)?;
        }
        if let Some(direct) = direct {
            for ((key, ..), argument) in order.iter_mut().zip(&converted[direct..]) {
                *key = argument.clone();
            }
        }
        if call.agg_distinct {
            converted.iter().try_for_each(|argument| self.check_order_collation(argument))?;
        }
        let mut derived = Collation::of_call(&converted, result);
        if matches!(name, "min" | "max") && derived.oid().is_none() {
            derived = Collation::Needed(STRING_COMPARISON);
        }
        let new = AggregateCall {
            kind,
            name: name.to_owned(),
            arguments: converted,
            distinct: call.agg_distinct,
            filter,
            order,
            direct,
        };
        if let Some(definition) = over {
            let call = self.window_aggregate(definition, new, result, location)?;
            return Ok(Expr { derived, ..call });
        }
        let scope = self.scope()?;
        // Equal aggregates in ORDER BY or DISTINCT ON share the one of the target list.
        let known = scope.aggregates.iter().position(|known| is_same(known, &new));
        let number = known.unwrap_or(scope.aggregates.len());
        if known.is_none() {
            scope.aggregates.push(new);
        }
        Ok(Expr { derived, ..Expr::new(ExprKind::Aggregate(number), result, location) })
    }

    /// Chooses the aggregate of a call. `direct` is the number of direct arguments before WITHIN
    /// GROUP, if the call has that clause.
    fn choose_aggregate(
        &self,
        call: &protobuf::FuncCall,
        name: &str,
        arguments: &[Expr],
        direct: Option<usize>,
    ) -> Result<ChosenAggregate> {
        let location = call.location;
        let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
        if matches!((name, types.as_slice()), ("json_agg" | "jsonb_agg", [TypeOid::UNKNOWN])) {
            return Err(self.polymorphic_unknown(location));
        }
        if call.agg_star && name == "count" {
            let (kind, wanted) = (AggregateKind::CountRows, Vec::new());
            return Ok(ChosenAggregate { kind, declared: &[], wanted, result: TypeOid::INT8 });
        }
        if call.args.is_empty() && !call.agg_star && name == "count" {
            return Err(self.error(
                "42809",
                "count(*) must be used to call a parameterless aggregate function",
                location,
            ));
        }
        if let (Some(direct), Some(set)) = (direct, OrderedSet::hypothetical(name)) {
            let wanted = self.types_of_hypothetical(name, arguments, direct, location)?;
            let (kind, result) = (AggregateKind::OrderedSet(set), set.result_of_hypothetical());
            return Ok(ChosenAggregate { kind, declared: &[], wanted, result });
        }
        let resolved = choose(aggregates_named(name), &types)
            .map_err(|reason| self.function_error(name, &types, location, &reason))?;
        let Eval::Aggregate(kind) = resolved.function.eval else {
            return Err(SqlError::internal("an aggregate that is none"));
        };
        let declared = resolved.function.arguments;
        Ok(ChosenAggregate { kind, declared, wanted: resolved.arguments, result: resolved.result })
    }

    /// Takes the converted arguments as the sort keys of an aggregate with DISTINCT. `positions`
    /// are the keys' positions among the arguments.
    ///
    /// # Errors
    /// 42P10 for a key that is no argument.
    fn take_sort_keys(
        &self,
        positions: &[Option<usize>],
        converted: &[Expr],
        order: &mut [(Expr, bool, bool)],
    ) -> Result<()> {
        for (position, (key, ..)) in positions.iter().zip(order) {
            let argument = position.and_then(|at| converted.get(at)).ok_or_else(|| {
                let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                self.error("42P10", message, key.location)
            })?;
            // The sort key is the converted argument.
            *key = argument.clone();
        }
        Ok(())
    }

    /// Returns the argument types of a hypothetical-set aggregate. Each direct argument has a
    /// common type with its sort key.
    fn types_of_hypothetical(
        &self,
        name: &str,
        arguments: &[Expr],
        direct: usize,
        location: i32,
    ) -> Result<Vec<TypeOid>> {
        let (own, keys) = arguments.split_at(direct);
        if own.len() != keys.len() {
            let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
            let error = self.function_error(name, &types, location, &NoMatch::None);
            return Err(error.with_hint(format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {}) must match the number of ordering columns (here {}).",
                own.len(),
                keys.len()
            )));
        }
        let common = |(own, key): (&Expr, &Expr)| {
            let types = [(key.ty, key.location), (own.ty, own.location)];
            self.common_type(&types, "WITHIN GROUP")
        };
        let types = own.iter().zip(keys).map(common).collect::<Result<Vec<_>>>()?;
        Ok(types.repeat(2))
    }

    /// Refuses WITHIN GROUP for other aggregates, and ordered-set aggregates without it.
    fn check_within_group(
        &self,
        kind: AggregateKind,
        name: &str,
        call: &protobuf::FuncCall,
    ) -> Result<()> {
        let (sqlstate, message) = match (kind, call.agg_within_group) {
            (AggregateKind::OrderedSet(_), false) => {
                ("42809", format!("WITHIN GROUP is required for ordered-set aggregate {name}"))
            }
            (AggregateKind::OrderedSet(_), true) if call.over.is_some() => {
                ("0A000", format!("OVER is not supported for ordered-set aggregate {name}"))
            }
            (AggregateKind::OrderedSet(_), true) | (_, false) => return Ok(()),
            (_, true) => {
                let why = "is not an ordered-set aggregate, so it cannot have WITHIN GROUP";
                ("42809", format!("{name} {why}"))
            }
        };
        Err(self.error(sqlstate, message, call.location))
    }

    #[expect(clippy::type_complexity, reason = "used once, just above")]
    fn aggregate_parts(
        &mut self,
        call: &protobuf::FuncCall,
    ) -> Result<(Vec<Expr>, Option<Expr>, Vec<(Expr, bool, bool)>)> {
        let arguments = self.exprs(&call.args)?;
        let filter = match &call.agg_filter {
            Some(filter) => {
                let place = self.scope()?.place;
                self.set_place(Place::Filter)?;
                let filter = self.expr(filter)?;
                self.set_place(place)?;
                Some(self.to_bool(filter, "FILTER")?)
            }
            None => None,
        };
        let mut order = Vec::new();
        for node in &call.agg_order {
            let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
            order.push(self.own_sort_key(sort)?);
        }
        Ok((arguments, filter, order))
    }

    /// Analyzes a sort key inside an aggregate or window: the expression, whether it is descending,
    /// and whether NULLs come first.
    pub(crate) fn own_sort_key(&mut self, sort: &protobuf::SortBy) -> Result<(Expr, bool, bool)> {
        let expr = self.expr_of(sort.node.as_deref())?;
        let expr = self.to_output(expr)?;
        if !self.is_ordered("<", &expr) {
            let ty = self.format_oid(expr.ty);
            let message = format!("could not identify an ordering operator for type {ty}");
            return Err(self
                .error("42883", message, expr.location)
                .with_hint("Use an explicit ordering operator or modify the query."));
        }
        self.check_order_collation(&expr)?;
        let (descending, nulls_first) = self.sort_direction(sort)?;
        Ok((expr, descending, nulls_first))
    }
}

/// Returns whether an argument is cast to text before the call.
///
/// That holds for functions that PostgreSQL defines with such a cast. It also holds for types whose
/// values alone do not determine their text.
fn shown_as_text(function: &Function, number: usize, given: TypeOid) -> bool {
    let declared = function.arguments.get(number).or(function.arguments.last());
    let quotes = matches!(function.name, "quote_literal" | "quote_nullable");
    let shows = matches!(function.name, "concat" | "concat_ws" | "format");
    match declared.copied() {
        Some(ANY_ELEMENT) => quotes,
        Some(ANY) => shows && given.is_object_name(),
        _ => false,
    }
}

/// Returns whether two aggregates of a query have the same result.
pub(crate) fn is_same(one: &AggregateCall, other: &AggregateCall) -> bool {
    let all = |ones: &[Expr], others: &[Expr]| {
        ones.len() == others.len()
            && ones.iter().zip(others).all(|(a, b)| a.same(b) && !is_volatile(a))
    };
    let filters = match (&one.filter, &other.filter) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same(b) && !is_volatile(a),
        _ => false,
    };
    one.kind == other.kind
        && one.name == other.name
        && one.distinct == other.distinct
        && one.direct == other.direct
        && filters
        && all(&one.arguments, &other.arguments)
        && one.order.len() == other.order.len()
        && one.order.iter().zip(&other.order).all(|((a, descending, first), (b, d, f))| {
            a.same(b) && !is_volatile(a) && descending == d && first == f
        })
}
