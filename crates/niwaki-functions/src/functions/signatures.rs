//! The notation of the tables of functions, and their index by name.

use niwaki_env::hash::HashMap;
use niwaki_expr::function::Function;

/// Writes a table of functions: `name (ARGUMENT TYPES) RESULT flags Kind(body);`.
///
/// There are three flags, in this order:
///
/// - `strict`: a NULL argument gives NULL; `nullable`: NULL arguments reach the body.
/// - `single`: no argument repeats; `variadic`: the last argument repeats.
/// - the volatility: `immutable`, `stable` or `volatile`.
///
/// The kind is a variant of [`niwaki_expr::function::Eval`]: what the body takes and returns.
macro_rules! functions {
    (@strict nullable) => { false };
    (@strict strict) => { true };
    (@variadic variadic) => { true };
    (@variadic single) => { false };
    (@volatility immutable) => { niwaki_catalog::FunctionVolatility::Immutable };
    (@volatility stable) => { niwaki_catalog::FunctionVolatility::Stable };
    (@volatility volatile) => { niwaki_catalog::FunctionVolatility::Volatile };
    ($($name:literal ($($argument:ident),*) $result:ident $strict:ident $variadic:ident $volatility:ident $kind:ident($body:expr);)*) => {
        &[$(niwaki_expr::function::Function {
            name: $name,
            arguments: &[$(niwaki_expr::function::T::$argument),*],
            result: niwaki_expr::function::T::$result,
            variadic: $crate::functions::functions!(@variadic $variadic),
            strict: $crate::functions::functions!(@strict $strict),
            volatility: $crate::functions::functions!(@volatility $volatility),
            eval: niwaki_expr::function::Eval::$kind($body),
        }),*]
    };
}
pub(crate) use functions;

/// Functions by their names.
pub(crate) type ByName = HashMap<&'static str, Vec<&'static Function>>;

/// Builds the index of function tables by name.
pub(crate) fn index(tables: &[&'static [Function]]) -> ByName {
    let mut map = ByName::default();
    for function in tables.iter().copied().flatten() {
        map.entry(function.name).or_default().push(function);
    }
    map
}
