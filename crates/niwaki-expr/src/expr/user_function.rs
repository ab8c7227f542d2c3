//! Users' functions, as their calls need them.

use niwaki_catalog::{CatalogState, FunctionVolatility, Oid, SearchPath};
use niwaki_types::{TypeOid, quote_identifier};

use super::Expr;
use crate::context::RecordFields;

/// The identity of a function in a call, with the types of its parameters there. A polymorphic
/// function has different types in different calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionKey {
    /// The number of the function.
    pub oid: Oid,
    /// The types of the arguments.
    pub arguments: Vec<TypeOid>,
    /// The collation of the call's arguments, if it is not the default collation.
    pub collation: Option<Oid>,
}

/// A user's function, as its calls need it.
#[derive(Debug)]
pub struct UserFunction {
    /// The function and the types of this call.
    pub key: FunctionKey,
    /// The name.
    pub name: String,
    /// The schema.
    pub schema: String,
    /// The types of the function's parameters, as it was defined.
    pub declared: Vec<u32>,
    /// Set if the last argument is an array, for which calls may give any number of values.
    pub variadic: bool,
    /// True if a NULL argument makes the result NULL.
    pub strict: bool,
    /// The stability of the results.
    pub volatility: FunctionVolatility,
    /// The cost of a call, in calls of operators.
    pub cost: f64,
    /// The name of the function's single column in FROM, if the definition gives one.
    pub column: Option<String>,
    /// The fields of a returned `record`.
    pub fields: Option<RecordFields>,
    /// The estimated number of rows that a set-returning function returns.
    pub rows: f64,
    /// The function's body over its parameters, if the body is one expression that may replace a
    /// call.
    pub inline: Option<Expr>,
}

impl UserFunction {
    /// Formats a call with these arguments, which are formatted already. The function's name gets
    /// its schema if the search path does not find this function.
    pub fn call(
        &self,
        mut arguments: Vec<String>,
        catalog: &CatalogState,
        path: &SearchPath,
    ) -> String {
        let mut name = quote_identifier(&self.name);
        let found = catalog.resolve_function(path, None, &self.name, &self.declared);
        if found.is_none_or(|found| found.oid != self.key.oid) {
            name = format!("{}.{name}", quote_identifier(&self.schema));
        }
        if self.variadic
            && let Some(array) = arguments.last_mut()
        {
            array.insert_str(0, "VARIADIC ");
        }
        format!("{name}({})", arguments.join(", "))
    }
}
