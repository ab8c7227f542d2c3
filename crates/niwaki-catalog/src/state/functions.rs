//! The functions and triggers of a state.

use std::sync::Arc;

use crate::definition::function_definition::FunctionDefinition;
use crate::definition::relation_definition::RelationKind;
use crate::definition::schema::SearchPath;
use crate::definition::trigger::Trigger;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::relation::Relation;

impl CatalogState {
    /// Returns the user's function with this number.
    pub fn function(&self, oid: Oid) -> Option<&Arc<FunctionDefinition>> {
        self.functions.by_oid.get(&oid)
    }

    /// Returns all user functions in the order of their numbers.
    pub fn functions(&self) -> Vec<&Arc<FunctionDefinition>> {
        let mut all: Vec<_> = self.functions.by_oid.values().collect();
        all.sort_unstable_by_key(|function| function.oid);
        all
    }

    /// Iterates over the user functions of this name in all schemas, in the order of their numbers.
    pub fn functions_named(&self, name: &str) -> impl Iterator<Item = &Arc<FunctionDefinition>> {
        let numbers = self.functions.by_name.get(name).map_or(&[][..], Vec::as_slice);
        numbers.iter().filter_map(|oid| self.functions.by_oid.get(oid))
    }

    /// Returns the user function with this name and these arguments in one schema.
    pub fn lookup_function(
        &self,
        schema: Oid,
        name: &str,
        arguments: &[u32],
    ) -> Option<&Arc<FunctionDefinition>> {
        self.functions_named(name)
            .find(|found| found.schema == schema && found.arguments == arguments)
    }

    /// Finds a user's function by name and arguments, in the named schema or along the search path.
    pub fn resolve_function(
        &self,
        path: &SearchPath,
        schema: Option<&str>,
        name: &str,
        arguments: &[u32],
    ) -> Option<&Arc<FunctionDefinition>> {
        match schema {
            Some(schema) => self.lookup_function(self.schema_by_name(schema)?.oid, name, arguments),
            None => path
                .schemas
                .iter()
                .find_map(|schema| self.lookup_function(*schema, name, arguments)),
        }
    }

    /// Returns a trigger by its number, with its table.
    pub fn trigger(&self, oid: Oid) -> Option<(&Arc<Relation>, &Trigger)> {
        let mut all = self
            .tables()
            .flat_map(|table| table.triggers.iter().map(move |trigger| (table, trigger)));
        all.find(|(_, trigger)| trigger.oid == oid)
    }

    /// Returns all triggers with their tables, in the order of their numbers.
    pub fn triggers(&self) -> Vec<(&Arc<Relation>, &Trigger)> {
        let tables = self.relations().filter(|table| table.kind == RelationKind::Table);
        let mut all: Vec<_> = tables
            .flat_map(|table| table.triggers.iter().map(move |trigger| (table, trigger)))
            .collect();
        all.sort_unstable_by_key(|(_, trigger)| trigger.oid);
        all
    }
}
