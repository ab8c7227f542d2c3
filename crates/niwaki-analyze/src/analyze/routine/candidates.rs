//! Overload resolution where users have functions of the call's name.

use std::sync::Arc;

use niwaki_catalog::{FunctionDefinition, Meaning, Oid, PG_CATALOG};
use niwaki_expr::context::RecordFields;
use niwaki_expr::expr::{Collation, Expr, ExprKind};
use niwaki_expr::function::{Eval, Function};
use niwaki_expr::query::{ResultShape, SetFunction};
use niwaki_functions::aggregates::is_aggregate;
use niwaki_functions::functions::functions_named;
use niwaki_parse::error::Result;
use niwaki_parse::stored_references::{ParsedReference, StoredReference, reference_of};
use niwaki_parse::types::{
    ANY_COMPATIBLE, ANY_COMPATIBLE_ARRAY, CastContext, array_of, element_of, is_polymorphic,
    variadic_element,
};
use niwaki_types::TypeOid;
use pg_query::{Node, NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::expression::call::{Candidate, Concrete, NoMatch, choose};

/// A user's function that a call may mean, with its position in the search path.
pub(crate) struct Found {
    function: Arc<FunctionDefinition>,
    place: usize,
}

/// A candidate of a call.
#[derive(Clone)]
enum Choice {
    Builtin(&'static Function),
    User(Arc<Fitted>),
}

/// A user's function, with the assignment of a call's arguments to its parameters.
struct Fitted {
    function: Arc<FunctionDefinition>,
    /// The parameter type for each argument of the call.
    declared: Vec<TypeOid>,
    /// The parameter for each argument.
    places: Vec<usize>,
    /// From this argument on, the arguments are the elements of the variadic parameter.
    gathers: Option<usize>,
    /// True if another function fits equally well, so that the call is ambiguous.
    doubtful: bool,
}

impl Candidate for Choice {
    fn parameters(&self) -> &[TypeOid] {
        match self {
            Self::Builtin(function) => function.arguments,
            Self::User(fitted) => &fitted.declared,
        }
    }
    fn result(&self) -> TypeOid {
        match self {
            Self::Builtin(function) => function.result,
            // The definition determines the result type.
            Self::User(_) => TypeOid::VOID,
        }
    }
    fn repeats(&self) -> bool {
        matches!(self, Self::Builtin(function) if function.variadic)
    }
}

/// The arguments of a call, some of them named.
struct Given {
    exprs: Vec<Expr>,
    names: Vec<Option<String>>,
    /// True if the call is a FROM item.
    in_from: bool,
}

impl Analyzer<'_> {
    /// Returns the users' functions that a call may mean by its name.
    pub(crate) fn functions_of_users(
        &self,
        call: &protobuf::FuncCall,
        names: &[&str],
    ) -> Vec<Found> {
        let catalog = self.context.catalog;
        let (name, schema) = match names {
            [name] => (*name, None),
            [schema, name] => (*name, Some(*schema)),
            _ => return Vec::new(),
        };
        if self.reads_view() {
            let Some(Meaning::Function(oid)) = self.meaning(call.location) else {
                return Vec::new();
            };
            let function = catalog.function(*oid).cloned();
            return function.map(|function| Found { function, place: 0 }).into_iter().collect();
        }
        if self.reads_numbers() {
            if let Some(ParsedReference::Object(number)) = reference_of(&call.funcname) {
                let function = catalog.function(Oid(number)).cloned();
                return function.map(|function| Found { function, place: 0 }).into_iter().collect();
            }
            // Only texts stored before numbers existed contain names of users' functions.
            if schema.is_none() && (is_aggregate(name) || !functions_named(name).is_empty()) {
                return Vec::new();
            }
        }
        let schema = match schema.map(|schema| catalog.schema_by_name(schema)) {
            Some(None) => return Vec::new(),
            Some(Some(schema)) => Some(schema.oid),
            None => None,
        };
        let place = |function: &FunctionDefinition| match schema {
            Some(schema) => (function.schema == schema).then_some(0),
            None => self.context.path.schemas.iter().position(|schema| *schema == function.schema),
        };
        let found = catalog.functions_named(name).filter(|function| !function.is_for_triggers());
        found
            .filter_map(|function| {
                place(function).map(|place| Found { function: Arc::clone(function), place })
            })
            .collect()
    }

    /// Analyzes a call whose name is also the name of users' functions.
    pub(crate) fn call_among_users(
        &mut self,
        call: &protobuf::FuncCall,
        name: &str,
        shown: &str,
        found: Vec<Found>,
        builtin_too: bool,
    ) -> Result<Expr> {
        let location = call.location;
        let many = |function: &&Function| matches!(function.eval, Eval::Window(_));
        if builtin_too && (is_aggregate(name) || functions_named(name).iter().any(many)) {
            let what = "a function of a user with the name of an aggregate or a window function";
            return Err(self.unsupported(what, location));
        }
        self.refuse_aggregate_syntax(call, shown)?;
        let given = self.given_arguments(call)?;
        let types: Vec<TypeOid> = given.exprs.iter().map(|e| e.ty).collect();
        let named = given.names.iter().any(Option::is_some);
        let candidates = self.choices(call, name, &given, found, builtin_too && !named);
        match choose(&candidates, &types).map(|resolved| resolved.function) {
            Ok(Choice::User(fitted)) if fitted.doubtful => {
                Err(self.no_call(shown, &given, location, &NoMatch::Ambiguous))
            }
            Ok(Choice::User(fitted)) => {
                self.refuse_over(call, shown)?;
                self.note_function(location, fitted.function.oid)?;
                self.call_of_user(&fitted, given, location)
            }
            Err(NoMatch::None) | Ok(Choice::Builtin(_)) if builtin_too && !named => {
                self.call_of_builtin(call, name, shown, given.exprs)
            }
            Ok(Choice::Builtin(_)) => Err(self.no_call(shown, &given, location, &NoMatch::None)),
            Err(reason) => Err(self.no_call(shown, &given, location, &reason)),
        }
    }

    fn no_call(
        &self,
        shown: &str,
        given: &Given,
        location: i32,
        reason: &NoMatch,
    ) -> niwaki_parse::error::SqlError {
        let arguments = given.exprs.iter().zip(&given.names).map(|(expr, name)| {
            let kind = self.format_oid(expr.declared());
            name.as_ref().map_or(kind.clone(), |name| format!("{name} => {kind}"))
        });
        let arguments: Vec<String> = arguments.collect();
        self.call_error(shown, &arguments, location, reason)
    }

    fn given_arguments(&mut self, call: &protobuf::FuncCall) -> Result<Given> {
        let in_from = self.from_call.take() == Some(call.location);
        let mut given = Given { exprs: Vec::new(), names: Vec::new(), in_from };
        for node in &call.args {
            match &node.node {
                Some(NodeEnum::NamedArgExpr(argument)) => {
                    let name = Some(argument.name.clone());
                    if given.names.contains(&name) {
                        let message =
                            format!("argument name \"{}\" used more than once", argument.name);
                        return Err(self.error("42601", message, argument.location));
                    }
                    given.exprs.push(self.expr_of(argument.arg.as_deref())?);
                    given.names.push(name);
                }
                _ if given.names.iter().any(Option::is_some) => {
                    let message = "positional argument cannot follow named argument";
                    return Err(self.error("42601", message, place_of(node, call.location)));
                }
                _ => {
                    given.exprs.push(self.expr(node)?);
                    given.names.push(None);
                }
            }
        }
        Ok(given)
    }

    /// Returns the candidates of a call with these arguments, without those that the search path
    /// hides.
    fn choices(
        &self,
        call: &protobuf::FuncCall,
        name: &str,
        given: &Given,
        found: Vec<Found>,
        builtin_too: bool,
    ) -> Vec<Choice> {
        let mut fitted: Vec<(usize, Fitted)> = Vec::new();
        for found in found {
            let Some(new) = self.fitted(&found.function, given, call.func_variadic) else {
                continue;
            };
            let known = fitted.iter().position(|(_, old)| old.declared == new.declared);
            let Some(old) = known.and_then(|at| fitted.get_mut(at)) else {
                fitted.push((found.place, new));
                continue;
            };
            let better = match (old.0.cmp(&found.place), old.1.gathers, new.gathers) {
                (std::cmp::Ordering::Less, ..) => false,
                (std::cmp::Ordering::Greater, ..) => true,
                (_, None, Some(_)) => false,
                (_, Some(_), None) => true,
                _ => {
                    old.1.doubtful = true;
                    false
                }
            };
            if better {
                *old = (found.place, new);
            }
        }
        let mut choices: Vec<Choice> = Vec::new();
        if builtin_too && !call.func_variadic {
            let path = &self.context.path.schemas;
            let builtin = path.iter().position(|schema| *schema == PG_CATALOG).unwrap_or(0);
            for function in functions_named(name) {
                let same = |fitted: &Fitted| fitted.declared == function.arguments;
                fitted.retain(|(place, fitted)| *place < builtin || !same(fitted));
                if !fitted.iter().any(|(_, fitted)| same(fitted)) {
                    choices.push(Choice::Builtin(function));
                }
            }
        }
        choices.extend(fitted.into_iter().map(|(_, fitted)| Choice::User(Arc::new(fitted))));
        choices
    }

    /// Assigns a call's arguments to a function's parameters. Returns `None` if their number or
    /// names do not match.
    fn fitted(
        &self,
        function: &Arc<FunctionDefinition>,
        given: &Given,
        as_array: bool,
    ) -> Option<Fitted> {
        let inputs = function.inputs();
        let kind = |place: usize| {
            let declared = TypeOid(inputs.get(place)?.kind);
            Some(self.context.text.types.column_type(declared).oid)
        };
        let count = given.exprs.len();
        let named = given.names.iter().any(Option::is_some);
        let last = inputs.len().checked_sub(1);
        let function = Arc::clone(function);
        if function.is_variadic() && !as_array && named {
            return None;
        }
        // With fewer arguments, the variadic parameter's default may replace all elements.
        if let Some(last) = last.filter(|last| function.is_variadic() && !as_array && count > *last)
        {
            let element = kind(last).and_then(variadic_element)?;
            let places: Vec<usize> = (0..count).map(|at| at.min(last)).collect();
            let declared =
                places.iter().map(|at| if *at < last { kind(*at) } else { Some(element) });
            let declared = declared.collect::<Option<Vec<TypeOid>>>()?;
            return Some(Fitted {
                function,
                declared,
                places,
                gathers: Some(last),
                doubtful: false,
            });
        }
        if as_array && !function.is_variadic() || count > inputs.len() {
            return None;
        }
        let mut places = Vec::with_capacity(count);
        for (number, name) in given.names.iter().enumerate() {
            let place = match name {
                None => number,
                Some(name) => inputs.iter().position(|input| input.name == *name)?,
            };
            if places.contains(&place) {
                return None;
            }
            places.push(place);
        }
        let missing = |place: &usize| !places.contains(place);
        if (0..inputs.len()).filter(missing).any(|place| inputs[place].default.is_none()) {
            return None;
        }
        let declared = places.iter().map(|place| kind(*place)).collect::<Option<Vec<TypeOid>>>()?;
        Some(Fitted { function, declared, places, gathers: None, doubtful: false })
    }

    fn call_of_user(&mut self, fitted: &Fitted, given: Given, location: i32) -> Result<Expr> {
        let (definition, in_from) = (&fitted.function, given.in_from);
        let types: Vec<TypeOid> = given.exprs.iter().map(|e| e.ty).collect();
        // If types only have to be compatible, untyped literals are text.
        let of_one_type = |declared: TypeOid| {
            is_polymorphic(declared) && !matches!(declared, ANY_COMPATIBLE | ANY_COMPATIBLE_ARRAY)
        };
        let polymorphic = fitted.declared.iter().zip(&types).filter(|(d, _)| of_one_type(**d));
        let types_known = polymorphic.clone().any(|(_, t)| *t != TypeOid::UNKNOWN);
        if polymorphic.clone().next().is_some() && !types_known {
            return Err(self.polymorphic_unknown(location));
        }
        let no_match =
            |this: &Self| this.no_call(&definition.name, &given, location, &NoMatch::None);
        let Ok(concrete) = Concrete::of(&fitted.declared, &types) else {
            return Err(no_match(self));
        };
        if concrete.lacks_element(&fitted.declared, TypeOid(definition.returns)) {
            return Err(self.no_call(&definition.name, &given, location, &NoMatch::NoElement));
        }
        let inputs = definition.inputs();
        let mut kinds = Vec::with_capacity(inputs.len());
        for input in &inputs {
            let kind = concrete.of_type(TypeOid(input.kind), None);
            kinds.push(kind.ok_or_else(|| no_match(self))?);
        }
        let Some(shape) = self.shape_of(definition, concrete)? else { return Err(no_match(self)) };
        let mut arguments: Vec<Option<Expr>> = vec![None; inputs.len()];
        let mut gathered = Vec::new();
        for (number, (expr, place)) in given.exprs.into_iter().zip(&fitted.places).enumerate() {
            if fitted.gathers.is_some_and(|from| number >= from) {
                let element = element_of(kinds[*place]).unwrap_or(TypeOid::TEXT);
                gathered.push(self.argument(expr, element, location)?);
            } else {
                arguments[*place] = Some(self.argument(expr, kinds[*place], location)?);
            }
        }
        if let (Some(last), Some(kind)) = (fitted.gathers, kinds.last()) {
            let element = element_of(*kind).unwrap_or(TypeOid::TEXT);
            let ty = array_of(element).unwrap_or(*kind);
            arguments[last] = Some(Expr::new(ExprKind::Array(gathered), ty, location));
        }
        let mut complete = Vec::with_capacity(arguments.len());
        for ((argument, input), kind) in arguments.into_iter().zip(&inputs).zip(&kinds) {
            complete.push(match (argument, &input.default) {
                (Some(argument), _) => argument,
                (None, Some(default)) => {
                    let target = (self.context.text.types.column_type(*kind), input.name.as_str());
                    crate::analyze::table_expression(default, None, self.context, Some(target))?
                }
                (None, None) => Expr::constant(niwaki_types::Datum::Null, *kind, location),
            });
        }
        let result = Self::type_of_shape(&shape);
        let collation = Collation::of_all(&complete).as_input();
        let function = self.user_function(definition, kinds, collation, &shape)?;
        // In FROM, a composite value is a row of columns.
        let fields: Option<RecordFields> = match &shape {
            ResultShape::Row { fields, names, .. } => {
                Some(names.iter().cloned().zip(fields.iter().copied()).collect())
            }
            _ => None,
        };
        if definition.returns_set || in_from && fields.is_some() {
            let function = SetFunction::User { function, fields };
            return self.set_call(function, complete, result, location);
        }
        let kind = ExprKind::UserCall { function, arguments: complete };
        let call = Expr::new(kind, result.oid, location);
        Ok(Expr { typmod: result.typmod, domain: result.domain, ..call })
    }

    /// Converts an argument to a parameter's type.
    fn argument(&mut self, expr: Expr, kind: TypeOid, location: i32) -> Result<Expr> {
        let wanted = self.context.text.types.column_type(kind);
        if wanted.domain.is_some() && expr.domain == wanted.domain {
            return Ok(expr);
        }
        let from = expr.ty;
        let converted = self.coerce(expr, wanted.oid, CastContext::Implicit)?;
        let converted = converted.ok_or_else(|| {
            let (from, to) = (self.format_oid(from), self.format_oid(kind));
            self.error("42846", format!("cannot cast type {from} to {to}"), location)
        })?;
        let converted = Self::with_typmod(converted, wanted.typmod, false);
        self.as_domain(converted, wanted.domain)
    }

    /// Notes the user's function that a name means.
    fn note_function(&self, location: i32, oid: Oid) -> Result<()> {
        self.note_reference(location, StoredReference::Name(oid.0))?;
        self.note(location, || Meaning::Function(oid))
    }
}

/// Returns the location of a constant in the statement.
fn place_of(node: &Node, otherwise: i32) -> i32 {
    match &node.node {
        Some(NodeEnum::AConst(constant)) => constant.location,
        _ => otherwise,
    }
}
