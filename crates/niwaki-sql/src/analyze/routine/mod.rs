//! Functions written in SQL: which of them a call means, and what their bodies mean.
//!
//! A body is text that gets its meaning where it is called, as in PostgreSQL: by the caller's search path and settings. So it is analyzed and
//! planned with the statement that calls it, once for each list of argument types; the locks of what it reads are taken with those of
//! the statement. A body that is one expression stands in the place of its calls (`rewrite`), all others are run (`exec`).

mod body;
mod candidates;
mod define;
mod parameters;
mod shape;

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{FunctionDefinition, FunctionVolatility, Oid, Relation};
use niwaki_env::hash::HashMap;
use niwaki_env::stack;
use niwaki_types::{TextSettings, TypeOid};

use super::Analyzer;
use crate::context::{AnalyzeContext, RecordFields};
use crate::error::Result;
use crate::expr::{FunctionKey, UserFunction};
use crate::functions::Volatility;
use crate::plan::{FunctionBodies, ResultShape};
use crate::store::TableLock;

pub use define::{analyze_function, check_function};
pub(super) use parameters::Routine;

/// The functions of users that one statement calls, anywhere.
#[derive(Debug)]
pub struct CalledFunctions<'a> {
    /// How literals in bodies are read: as the session says, whatever a view around the call does.
    text: &'a TextSettings,
    now: i64,
    found: RefCell<Found>,
}

#[derive(Debug, Default)]
struct Found {
    known: HashMap<FunctionKey, Arc<UserFunction>>,
    bodies: FunctionBodies,
    relations: Vec<(Arc<Relation>, TableLock)>,
}

impl<'a> CalledFunctions<'a> {
    pub(super) fn new(context: &AnalyzeContext<'a>) -> Self {
        Self { text: context.text, now: context.now, found: RefCell::default() }
    }

    /// Their bodies, and the relations that these name.
    pub(super) fn take(&self) -> (FunctionBodies, Vec<(Arc<Relation>, TableLock)>) {
        let found = self.found.take();
        (found.bodies, found.relations)
    }
}

fn volatility_of(definition: &FunctionDefinition) -> Volatility {
    match definition.traits.volatility {
        FunctionVolatility::Immutable => Volatility::Immutable,
        FunctionVolatility::Stable => Volatility::Stable,
        FunctionVolatility::Volatile => Volatility::Volatile,
    }
}

/// The fields of a `record`.
fn fields_of(shape: &ResultShape) -> Option<RecordFields> {
    match shape {
        ResultShape::Row { kind: TypeOid::RECORD, fields, names } => {
            Some(names.iter().cloned().zip(fields.iter().copied()).collect())
        }
        _ => None,
    }
}

/// The name of the one output parameter of a function.
fn column_of(definition: &FunctionDefinition) -> Option<String> {
    let mut outputs = definition.outputs();
    match (outputs.next(), outputs.next()) {
        (Some(only), None) if !only.name.is_empty() => Some(only.name.clone()),
        _ => None,
    }
}

impl Analyzer<'_> {
    /// What calls of a function with arguments of these types need to know of it. Its body is looked at where the statement that
    /// is analyzed is to be run.
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
            volatility: volatility_of(definition),
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
        // A call inside of its own body is a call of what is known by then.
        let open = Arc::new(head(None));
        functions.found.borrow_mut().known.insert(key.clone(), open);
        let stack_bytes = crate::parse::stack_bytes(&definition.body);
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
