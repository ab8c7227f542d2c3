//! Portals of a session: open, and running.

use niwaki_env::hash::HashMap;
use niwaki_types::Datum;

use crate::session::portal::Portal;

/// Portals by name. A portal leaves `open` while it runs, because it runs in the session.
#[derive(Default)]
pub(crate) struct Portals {
    open: HashMap<String, Portal>,
    /// Names of the running portals, the outermost first.
    running: Vec<String>,
    /// Parameter buffer of the last unnamed portal, kept for reuse.
    spare_parameters: Vec<Datum>,
}

impl Portals {
    /// Returns an open portal.
    pub(crate) fn get(&self, name: &str) -> Option<&Portal> {
        self.open.get(name)
    }

    /// Returns an open portal, to change it.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        self.open.get_mut(name)
    }

    /// Returns whether a portal of this name is open.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.open.contains_key(name)
    }

    /// Returns whether a portal of this name runs now. No other portal may take its name.
    pub(crate) fn is_running(&self, name: &str) -> bool {
        self.running.iter().any(|running| running == name)
    }

    /// Returns the open portals with their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Portal)> {
        self.open.iter()
    }

    /// Opens a portal.
    pub(crate) fn insert(&mut self, name: String, portal: Portal) {
        self.open.insert(name, portal);
    }

    /// Closes a portal. Returns false if there was none of this name.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        self.open.remove(name).is_some()
    }

    /// Takes an open portal out, to run it.
    pub(crate) fn take(&mut self, name: &str) -> Option<(String, Portal)> {
        self.open.remove_entry(name)
    }

    /// Notes that a portal begins to run. It is the innermost one now.
    pub(crate) fn begin(&mut self, name: String) {
        self.running.push(name);
    }

    /// Notes that the innermost running portal has ended. Returns its name.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.running.pop()
    }

    /// Closes all open portals.
    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Closes the portals that end with the transaction: all but held cursors.
    pub(crate) fn close_with_transaction(&mut self) {
        self.open.retain(|_, portal| portal.held);
    }

    /// Closes the portals that were made after the savepoint of this level.
    pub(crate) fn close_above(&mut self, level: usize) {
        self.open.retain(|_, portal| portal.level <= level);
    }

    /// Gives the portals above a level to that level.
    pub(crate) fn lower_to(&mut self, level: usize) {
        for portal in self.open.values_mut() {
            portal.level = portal.level.min(level);
        }
    }

    /// Returns an empty buffer for parameters.
    pub(crate) fn parameter_buffer(&mut self) -> Vec<Datum> {
        let mut buffer = std::mem::take(&mut self.spare_parameters);
        buffer.clear();
        buffer
    }

    /// Keeps the buffer of parameters for the next portal.
    pub(crate) fn keep_buffer(&mut self, parameters: Vec<Datum>) {
        self.spare_parameters = parameters;
    }
}
