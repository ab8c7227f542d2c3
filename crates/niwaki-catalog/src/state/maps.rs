//! The user-defined types and functions of a state, by number and by name.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::UserTypes;

use crate::definition::function_definition::FunctionDefinition;
use crate::definition::type_definition::TypeDefinition;
use crate::rows::oid::Oid;

/// Types of a catalog state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    pub(super) by_oid: HashMap<Oid, Arc<TypeDefinition>>,
    pub(super) for_values: Arc<UserTypes>,
}

impl Types {
    pub(crate) fn put(&mut self, definition: Arc<TypeDefinition>) {
        self.by_oid.insert(definition.oid, definition);
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        self.by_oid.remove(&oid);
    }
}

/// Functions of a catalog state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    pub(super) by_oid: HashMap<Oid, Arc<FunctionDefinition>>,
    /// Numbers by name, ascending.
    pub(super) by_name: HashMap<Arc<str>, Vec<Oid>>,
}

impl Functions {
    pub(crate) fn put(&mut self, definition: Arc<FunctionDefinition>) {
        self.remove(definition.oid);
        let named = self.by_name.entry(Arc::from(definition.name.as_str())).or_default();
        let at = named.partition_point(|other| *other < definition.oid);
        named.insert(at, definition.oid);
        self.by_oid.insert(definition.oid, definition);
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        let Some(old) = self.by_oid.remove(&oid) else { return };
        if let Some(named) = self.by_name.get_mut(old.name.as_str()) {
            named.retain(|other| *other != oid);
            if named.is_empty() {
                self.by_name.remove(old.name.as_str());
            }
        }
    }
}
