//! Functions written in SQL: overload resolution, and analysis of their bodies.
//!
//! As in PostgreSQL, a body is text that is resolved at the call, by the caller's search path and
//! settings. So it is analyzed and planned with the calling statement, once for each list of
//! argument types. The locks of the tables that it reads are taken with the statement's locks. A
//! body that is one expression is inlined (`rewrite`); all others are executed (`exec`).

mod body;
mod candidates;
mod define;
pub(super) mod enclosing;
mod parameters;
mod shape;

use std::sync::Arc;

use niwaki_catalog::{FunctionDefinition, Oid};
use niwaki_env::stack;
use niwaki_expr::context::RecordFields;
use niwaki_expr::expr::{FunctionKey, UserFunction};
use niwaki_expr::query::ResultShape;
use niwaki_parse::error::Result;
use niwaki_types::TypeOid;

use super::Analyzer;

pub use define::analyze_function;
pub use define::check_body;

/// Returns the fields of a `record` result.
fn fields_of(shape: &ResultShape) -> Option<RecordFields> {
    match shape {
        ResultShape::Row { kind: TypeOid::RECORD, fields, names } => {
            Some(names.iter().cloned().zip(fields.iter().copied()).collect())
        }
        _ => None,
    }
}

/// Returns the name of a function's only output parameter.
fn column_of(definition: &FunctionDefinition) -> Option<String> {
    let mut outputs = definition.outputs();
    match (outputs.next(), outputs.next()) {
        (Some(only), None) if !only.name.is_empty() => Some(only.name.clone()),
        _ => None,
    }
}

impl Analyzer<'_> {
    /// Returns the properties of a function for calls with arguments of these types. Its body is
    /// analyzed only if the statement is to be executed.
    fn user_function(
        &mut self,
        definition: &FunctionDefinition,
        arguments: Vec<TypeOid>,
        collation: Option<Oid>,
        shape: &ResultShape,
    ) -> Result<Arc<UserFunction>> {
        let key = FunctionKey { oid: definition.oid, arguments, collation };
        let head = |inline| UserFunction {
            key: key.clone(),
            name: definition.name.clone(),
            schema: self.schema_name(definition.schema),
            declared: definition.arguments.clone(),
            variadic: definition.is_variadic(),
            strict: definition.traits.strict,
            volatility: definition.traits.volatility,
            cost: definition.cost(),
            rows: definition.rows(),
            column: column_of(definition),
            fields: fields_of(shape),
            inline,
        };
        let Some(functions) = self.context.functions else { return Ok(Arc::new(head(None))) };
        if let Some(known) = functions.found.borrow().known.get(&key) {
            return Ok(Arc::clone(known));
        }
        // A recursive call sees the function without its body.
        let open = Arc::new(head(None));
        functions.found.borrow_mut().known.insert(key.clone(), open);
        let stack_bytes = niwaki_parse::parse::stack_bytes(&definition.body);
        let (body, inline) = stack::deeper_by(stack_bytes, || {
            self.function_body(definition, &key, shape, functions)
        })?;
        let function = Arc::new(head(inline));
        let mut found = functions.found.borrow_mut();
        found.bodies.insert(key.clone(), Arc::new(body));
        found.known.insert(key, Arc::clone(&function));
        Ok(function)
    }
}
