//! Prepared statements of a session.

use std::sync::Arc;

use niwaki_env::hash::HashMap;

use crate::session::statement::{Named, Statement};

/// Prepared statements by name. The unnamed one has the empty name.
#[derive(Default)]
pub(crate) struct Statements {
    named: HashMap<String, Named>,
}

impl Statements {
    /// Returns a statement.
    pub(crate) fn get(&self, name: &str) -> Option<&Named> {
        self.named.get(name)
    }

    /// Returns a statement that is about to run once more, and counts the run.
    pub(crate) fn used(&mut self, name: &str) -> Option<Arc<Statement>> {
        let named = self.named.get_mut(name)?;
        named.runs += 1;
        Some(Arc::clone(&named.statement))
    }

    /// Returns whether a statement has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// Returns the statements with their names, without the unnamed one.
    pub(crate) fn with_names(&self) -> impl Iterator<Item = (&String, &Named)> {
        self.named.iter().filter(|(name, _)| !name.is_empty())
    }

    /// Adds a statement.
    pub(crate) fn insert(&mut self, name: String, named: Named) {
        self.named.insert(name, named);
    }

    /// Replaces a statement by its new version, under each name.
    pub(crate) fn replace(&mut self, old: &Arc<Statement>, new: &Arc<Statement>) {
        for named in self.named.values_mut() {
            if Arc::ptr_eq(&named.statement, old) {
                named.statement = Arc::clone(new);
            }
        }
    }

    /// Forgets a statement. Returns false if there was none of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.named.remove(name).is_some()
    }

    /// Forgets all statements.
    pub(crate) fn clear(&mut self) {
        self.named.clear();
    }
}
