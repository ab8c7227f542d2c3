//! Overload resolution: chooses the function or operator of a call by PostgreSQL's rules.

use std::borrow::Cow;

use niwaki_catalog::builtin_functions;
use niwaki_expr::expr::{CastPurpose, Expr, ExprKind};
use niwaki_expr::function::Function;
use niwaki_functions::aggregates::is_aggregate;
use niwaki_functions::functions::{functions_named, operators_named};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{
    ANY, ANY_ARRAY, ANY_COMPATIBLE, ANY_COMPATIBLE_ARRAY, ANY_ELEMENT, ANY_ENUM, ANY_NONARRAY,
    CastContext, array_of, cast_path, category, converts_implicitly, element_of, is_preferred,
    type_by_name,
};
use niwaki_types::{ColumnType, TypeOid};

use crate::analyze::Analyzer;

/// Marks the implicit cast of a comparison operand from a date or timestamp: such a cast has a
/// wider range than the type.
pub(crate) fn compared(mut operand: Expr, from: TypeOid) -> Expr {
    if let ExprKind::Cast { purpose, from: own, .. } = &mut operand.kind
        && *own == from
        && *purpose == CastPurpose::Implied
        && matches!(from, TypeOid::DATE | TypeOid::TIMESTAMP)
        && matches!(operand.ty, TypeOid::TIMESTAMP | TypeOid::TIMESTAMPTZ)
    {
        *purpose = CastPurpose::Compared;
    }
    operand
}

/// A candidate of a call: an object with a signature.
pub(crate) trait Candidate: Clone {
    /// Returns the types of the parameters.
    fn parameters(&self) -> &[TypeOid];
    /// Returns the type of the result.
    fn result(&self) -> TypeOid;
    /// Returns whether the last parameter accepts any number of arguments.
    fn repeats(&self) -> bool;
}

impl Candidate for &'static Function {
    fn parameters(&self) -> &[TypeOid] {
        self.arguments
    }
    fn result(&self) -> TypeOid {
        self.result
    }
    fn repeats(&self) -> bool {
        self.variadic
    }
}

/// The chosen candidate, with the types to which its arguments are coerced.
pub(crate) struct Resolved<F = &'static Function> {
    pub(crate) function: F,
    pub(crate) arguments: Vec<TypeOid>,
    pub(crate) result: TypeOid,
}

/// The reason why no candidate was chosen.
pub(crate) enum NoMatch {
    None,
    Ambiguous,
    /// An argument is an `anyarray` of unknown element type, and the call needs the element type.
    NoElement,
}

/// Chooses a candidate for arguments of these types.
pub(crate) fn choose<F: Candidate>(
    candidates: &[F],
    types: &[TypeOid],
) -> std::result::Result<Resolved<F>, NoMatch> {
    // Usually one candidate has exactly these types.
    if let Some(function) = candidates.iter().find(|function| function.parameters() == types) {
        return finish(function, function.parameters(), types);
    }
    let mut fitting: Vec<Fitting<'_, F>> = Vec::new();
    for function in candidates {
        let Some(declared) = declared_types(function, types.len()) else { continue };
        if *declared == *types {
            return finish(function, &declared, types);
        }
        if !accepts(&declared, types) {
            continue;
        }
        // Of two candidates with the same parameters, prefer the one that is not variadic.
        match fitting.iter_mut().find(|(_, other)| *other == declared) {
            Some(_) if function.repeats() => {}
            Some(same) if same.0.repeats() => *same = (function, declared),
            _ => fitting.push((function, declared)),
        }
    }
    if fitting.len() > 1 {
        keep_best(&mut fitting, |declared| {
            declared.iter().zip(types).filter(|(d, t)| d == t && **t != TypeOid::UNKNOWN).count()
        });
    }
    if fitting.len() > 1 {
        keep_best(&mut fitting, |declared| {
            declared
                .iter()
                .zip(types)
                .filter(|(d, t)| {
                    **t != TypeOid::UNKNOWN
                        && (d == t || (is_preferred(**d) && category(**d) == category(**t)))
                })
                .count()
        });
    }
    if fitting.len() > 1 && types.contains(&TypeOid::UNKNOWN) {
        settle_unknown(&mut fitting, types)?;
    }
    match fitting.as_slice() {
        [] => Err(NoMatch::None),
        [(function, declared)] => finish(*function, declared, types),
        _ => Err(NoMatch::Ambiguous),
    }
}

/// A candidate, with its parameter types expanded to the number of arguments.
type Fitting<'c, F> = (&'c F, Cow<'c, [TypeOid]>);

fn declared_types<F: Candidate>(function: &F, count: usize) -> Option<Cow<'_, [TypeOid]>> {
    let declared = function.parameters();
    if declared.len() == count {
        return Some(Cow::Borrowed(declared));
    }
    if !function.repeats() || count < declared.len() {
        return None;
    }
    let last = *declared.last()?;
    Some((0..count).map(|i| declared.get(i).copied().unwrap_or(last)).collect())
}

fn accepts(declared: &[TypeOid], types: &[TypeOid]) -> bool {
    let simple = declared.iter().zip(types).all(|(d, t)| match *d {
        ANY | ANY_ELEMENT | ANY_COMPATIBLE => true,
        ANY_NONARRAY => element_of(*t).is_none(),
        ANY_ENUM => *t == TypeOid::UNKNOWN || t.is_enum(),
        // Some columns of PostgreSQL's statistics have the pseudo-type `anyarray`.
        ANY_ARRAY if *t == ANY_ARRAY => true,
        ANY_ARRAY | ANY_COMPATIBLE_ARRAY => *t == TypeOid::UNKNOWN || element_of(*t).is_some(),
        // A row is checked field by field after the choice.
        d if *t == TypeOid::RECORD && d.is_composite() => true,
        d => converts_implicitly(*t, d),
    });
    simple && polymorphic(declared, types).is_ok()
}

/// The actual types of a call's polymorphic parameters; `UNKNOWN` if no argument determines them.
struct Polymorphic {
    /// The type of [`ANY_ELEMENT`], and of the elements of [`ANY_ARRAY`]. [`ANY_ELEMENT`] itself if
    /// the element type is unknown.
    element: TypeOid,
    /// The type of [`ANY_COMPATIBLE`], and of the elements of [`ANY_COMPATIBLE_ARRAY`].
    compatible: TypeOid,
}

/// Determines the actual types of polymorphic parameters; `Err` if the arguments disagree.
fn polymorphic(declared: &[TypeOid], types: &[TypeOid]) -> std::result::Result<Polymorphic, ()> {
    let mut element = TypeOid::UNKNOWN;
    let mut compatible: Vec<TypeOid> = Vec::new();
    for (d, t) in declared.iter().zip(types) {
        if *t == TypeOid::UNKNOWN {
            continue;
        }
        let found = match *d {
            ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM => *t,
            ANY_ARRAY if *t == ANY_ARRAY => ANY_ELEMENT,
            ANY_ARRAY => element_of(*t).ok_or(())?,
            ANY_COMPATIBLE => {
                compatible.push(*t);
                continue;
            }
            ANY_COMPATIBLE_ARRAY => {
                compatible.push(element_of(*t).ok_or(())?);
                continue;
            }
            _ => continue,
        };
        if element != TypeOid::UNKNOWN && element != found {
            return Err(());
        }
        element = found;
    }
    Ok(Polymorphic { element, compatible: common_of(&compatible).ok_or(())? })
}

/// Returns the type to which all these types convert implicitly; `UNKNOWN` for no types.
fn common_of(types: &[TypeOid]) -> Option<TypeOid> {
    let Some((first, rest)) = types.split_first() else { return Some(TypeOid::UNKNOWN) };
    let implicit = |from, to| cast_path(from, to, CastContext::Implicit).is_some();
    let mut chosen = *first;
    for ty in rest.iter().copied() {
        if ty == chosen {
            continue;
        }
        if category(ty) != category(chosen) {
            return None;
        }
        if !is_preferred(chosen) && implicit(chosen, ty) && !implicit(ty, chosen) {
            chosen = ty;
        }
    }
    types.iter().all(|ty| implicit(*ty, chosen)).then_some(chosen)
}

fn keep_best<F>(fitting: &mut Vec<Fitting<'_, F>>, score: impl Fn(&[TypeOid]) -> usize) {
    let best = fitting.iter().map(|(_, declared)| score(declared)).max().unwrap_or(0);
    fitting.retain(|(_, declared)| score(declared) == best);
}

/// Resolves untyped arguments. They take the type category that the candidates agree on, with
/// strings preferred. Otherwise they take the type of the typed arguments, if all of these have one
/// type.
fn settle_unknown<F>(
    fitting: &mut Vec<Fitting<'_, F>>,
    types: &[TypeOid],
) -> std::result::Result<(), NoMatch> {
    let mut agreed = true;
    let mut wanted: Vec<Option<(char, bool)>> = vec![None; types.len()];
    for (position, ty) in types.iter().enumerate() {
        if *ty != TypeOid::UNKNOWN {
            continue;
        }
        let categories: Vec<char> = fitting.iter().map(|(_, d)| category(d[position])).collect();
        let chosen = if categories.contains(&'S') {
            'S'
        } else if categories.iter().all(|c| *c == categories[0]) {
            categories[0]
        } else {
            agreed = false;
            break;
        };
        let preferred = fitting
            .iter()
            .any(|(_, d)| category(d[position]) == chosen && is_preferred(d[position]));
        wanted[position] = Some((chosen, preferred));
    }
    if agreed {
        let remaining: Vec<_> = fitting
            .iter()
            .filter(|(_, declared)| {
                wanted.iter().zip(declared.iter()).all(|(wanted, d)| match wanted {
                    None => true,
                    Some((chosen, preferred)) => {
                        category(*d) == *chosen && (!preferred || is_preferred(*d))
                    }
                })
            })
            .cloned()
            .collect();
        if !remaining.is_empty() {
            *fitting = remaining;
        }
    }
    if fitting.len() > 1 {
        let mut known = types.iter().copied().filter(|t| *t != TypeOid::UNKNOWN);
        if let Some(first) = known.next()
            && known.all(|t| t == first)
        {
            let assumed = vec![first; types.len()];
            let matching: Vec<_> =
                fitting.iter().filter(|(_, d)| accepts(d, &assumed)).cloned().collect();
            if matching.len() == 1 {
                *fitting = matching;
            }
        }
    }
    Ok(())
}

/// The actual types of a call's polymorphic types.
#[derive(Clone, Copy)]
pub(crate) struct Concrete {
    element: TypeOid,
    compatible: TypeOid,
}

impl Concrete {
    /// Returns whether a call with these parameters and this result needs the unknown element type
    /// of an array.
    pub(crate) fn lacks_element(self, declared: &[TypeOid], result: TypeOid) -> bool {
        let of_element =
            |oid: &TypeOid| matches!(*oid, ANY_ARRAY | ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM);
        let known_by = declared.iter().filter(|oid| of_element(oid)).count();
        self.element == ANY_ELEMENT && (known_by > 1 || result != ANY_ARRAY && of_element(&result))
    }

    /// Determines the actual types of polymorphic parameters for arguments of these types; `Err` if
    /// the arguments disagree.
    pub(crate) fn of(declared: &[TypeOid], types: &[TypeOid]) -> std::result::Result<Self, ()> {
        let found = polymorphic(declared, types)?;
        // If all arguments are untyped, they are text.
        let known = |t: TypeOid| if t == TypeOid::UNKNOWN { TypeOid::TEXT } else { t };
        Ok(Self { element: known(found.element), compatible: known(found.compatible) })
    }

    /// Returns the actual type of a declared type.
    pub(crate) fn of_type(self, declared: TypeOid, given: Option<TypeOid>) -> Option<TypeOid> {
        let Self { element, compatible } = self;
        match declared {
            ANY_ENUM if !element.is_enum() => None,
            ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM => Some(element),
            ANY_ARRAY if element == ANY_ELEMENT => Some(ANY_ARRAY),
            ANY_ARRAY => array_of(element),
            ANY_COMPATIBLE => Some(compatible),
            ANY_COMPATIBLE_ARRAY => array_of(compatible),
            ANY => Some(match given {
                Some(TypeOid::UNKNOWN) | None => TypeOid::TEXT,
                Some(given) => given,
            }),
            declared => Some(declared),
        }
    }
}

fn finish<F: Candidate>(
    function: &F,
    declared: &[TypeOid],
    types: &[TypeOid],
) -> std::result::Result<Resolved<F>, NoMatch> {
    let concrete = Concrete::of(declared, types).map_err(|()| NoMatch::None)?;
    if concrete.lacks_element(declared, function.result()) {
        return Err(NoMatch::NoElement);
    }
    let arguments = declared
        .iter()
        .zip(types)
        .map(|(d, t)| concrete.of_type(*d, Some(*t)).ok_or(NoMatch::None))
        .collect::<std::result::Result<Vec<TypeOid>, NoMatch>>()?;
    let result = concrete.of_type(function.result(), None).ok_or(NoMatch::None)?;
    Ok(Resolved { function: function.clone(), arguments, result })
}

impl Analyzer<'_> {
    /// Analyzes an operator with one or two operands.
    pub(crate) fn operator(
        &mut self,
        name: &str,
        left: Option<Expr>,
        right: Expr,
        location: i32,
    ) -> Result<Expr> {
        let operands: Vec<Expr> = left.into_iter().chain(std::iter::once(right)).collect();
        let types: Vec<TypeOid> = operands.iter().map(|e| e.ty).collect();
        let declared: Vec<TypeOid> = operands.iter().map(Expr::declared).collect();
        let resolved = match self.choose_operator(name, &types) {
            Ok(resolved) => resolved,
            Err(reason) => return Err(self.operator_error(name, &declared, location, &reason)),
        };
        self.check_array_comparison(name, &resolved, location)?;
        // A value appended to a text is cast to text, as if the cast were written.
        if name == "||" && resolved.function.arguments.contains(&ANY_NONARRAY) {
            let text = TypeOid::TEXT;
            let mut arguments = Vec::with_capacity(operands.len());
            for operand in operands {
                arguments.push(self.cast(operand, ColumnType::new(text), location)?);
            }
            let resolved = self
                .choose_operator(name, &[text, text])
                .map_err(|reason| self.operator_error(name, &types, location, &reason))?;
            return Ok(niwaki_functions::functions::call(
                resolved.function,
                arguments,
                text,
                location,
            ));
        }
        let mut arguments = Vec::with_capacity(operands.len());
        for (operand, ty) in operands.into_iter().zip(&resolved.arguments) {
            let from = operand.ty;
            let operand = self
                .coerce(operand, *ty, CastContext::Implicit)?
                .ok_or_else(|| self.operator_error(name, &[from, *ty], location, &NoMatch::None))?;
            arguments.push(match resolved.result {
                TypeOid::BOOL => compared(operand, from),
                _ => operand,
            });
        }
        Ok(niwaki_functions::functions::call(
            resolved.function,
            arguments,
            resolved.result,
            location,
        ))
    }

    /// Refuses to compare arrays whose elements have no order.
    fn check_array_comparison(&self, name: &str, resolved: &Resolved, location: i32) -> Result<()> {
        let json = |ty: &TypeOid| *ty == TypeOid::JSON_ARRAY;
        if resolved.result != TypeOid::BOOL || !resolved.arguments.iter().all(json) {
            return Ok(());
        }
        let what = if matches!(name, "=" | "<>") {
            "an equality operator"
        } else {
            "a comparison function"
        };
        Err(self.error("42883", format!("could not identify {what} for type json"), location))
    }

    pub(crate) fn choose_operator(
        &self,
        name: &str,
        types: &[TypeOid],
    ) -> std::result::Result<Resolved, NoMatch> {
        let candidates: Vec<&'static Function> = operators_named(name)
            .iter()
            .copied()
            .filter(|f| f.arguments.len() == types.len())
            .collect();
        if candidates.is_empty() {
            return Err(NoMatch::None);
        }
        // An untyped operand is first assumed to have the other operand's type.
        if let [left, right] = types {
            let assumed = match (*left, *right) {
                (TypeOid::UNKNOWN, right) if right != TypeOid::UNKNOWN => Some(right),
                (left, TypeOid::UNKNOWN) if left != TypeOid::UNKNOWN => Some(left),
                _ => None,
            };
            if let Some(assumed) = assumed {
                let exact = candidates.iter().find(|f| f.arguments == [assumed, assumed]);
                if let Some(function) = exact {
                    return finish(function, function.arguments, &[assumed, assumed]);
                }
                // varchar uses the operators of text, which has the same representation.
                let base = if assumed == TypeOid::VARCHAR { TypeOid::TEXT } else { assumed };
                if base != assumed
                    && let Some(function) = candidates.iter().find(|f| f.arguments == [base, base])
                {
                    return finish(function, function.arguments, &[base, base]);
                }
            }
        }
        choose(&candidates, types)
    }

    fn operator_error(
        &self,
        name: &str,
        types: &[TypeOid],
        location: i32,
        reason: &NoMatch,
    ) -> SqlError {
        let shown = match types {
            [left, right] => {
                format!("{} {name} {}", self.format_oid(*left), self.format_oid(*right))
            }
            [only] => format!("{name} {}", self.format_oid(*only)),
            _ => name.to_owned(),
        };
        let hint = match (reason, types.len()) {
            (NoMatch::NoElement, _) => return no_element(),
            (NoMatch::Ambiguous, _) => {
                return self
                    .error("42725", format!("operator is not unique: {shown}"), location)
                    .with_hint(
                        "Could not choose a best candidate operator. \
                         You might need to add explicit type casts.",
                    );
            }
            (NoMatch::None, 1) => {
                "No operator matches the given name and argument type. \
                 You might need to add an explicit type cast."
            }
            (NoMatch::None, _) => {
                "No operator matches the given name and argument types. \
                 You might need to add explicit type casts."
            }
        };
        self.error("42883", format!("operator does not exist: {shown}"), location).with_hint(hint)
    }

    /// Returns whether a call means a user's trigger function.
    fn is_for_triggers(&self, name: &str, types: &[TypeOid]) -> bool {
        let found = self.context.catalog.resolve_function(self.context.path, None, name, &[]);
        types.is_empty() && found.is_some_and(|function| function.is_for_triggers())
    }

    /// Returns the error for a function call that fits no candidate.
    pub(crate) fn function_error(
        &self,
        name: &str,
        types: &[TypeOid],
        location: i32,
        reason: &NoMatch,
    ) -> SqlError {
        if matches!(reason, NoMatch::None) && self.is_for_triggers(name, types) {
            let message = "trigger functions can only be called as triggers";
            return self.error("0A000", message, location);
        }
        if matches!(reason, NoMatch::None) && is_absent(name) {
            return self.unsupported(format!("function {name}"), location);
        }
        let arguments: Vec<String> = types.iter().map(|t| self.format_oid(*t)).collect();
        self.call_error(name, &arguments, location, reason)
    }

    /// Returns the error for a call that fits no candidate, with the arguments shown as given.
    pub(crate) fn call_error(
        &self,
        name: &str,
        arguments: &[String],
        location: i32,
        reason: &NoMatch,
    ) -> SqlError {
        let shown = format!("{name}({})", arguments.join(", "));
        match reason {
            NoMatch::Ambiguous => {
                self.error("42725", format!("function {shown} is not unique"), location).with_hint(
                    "Could not choose a best candidate function. \
                     You might need to add explicit type casts.",
                )
            }
            NoMatch::None => {
                self.error("42883", format!("function {shown} does not exist"), location).with_hint(
                    "No function matches the given name and argument types. \
                     You might need to add explicit type casts.",
                )
            }
            NoMatch::NoElement => no_element(),
        }
    }
}

/// Returns the error `42804` for an unknown element type.
fn no_element() -> SqlError {
    SqlError::new("42804", "cannot determine element type of \"anyarray\" argument")
}

/// Returns whether PostgreSQL has functions of this name but Niwaki has none.
fn is_absent(name: &str) -> bool {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let known = builtin_functions().named(name).next().is_some();
    let has = !functions_named(name).is_empty() || is_aggregate(name);
    // A type's name is a cast. Functions that build a value of several arguments are not found
    // here.
    known && !has && type_by_name(name).is_none()
}
