//! The search path, resolved for one state of catalog and settings.

use std::sync::Arc;

use niwaki_catalog::SearchPath;

/// The last resolved search path.
#[derive(Default)]
pub(crate) struct PathCache {
    /// Versions of catalog and settings.
    version: (u64, u64),
    path: Option<Arc<SearchPath>>,
}

impl PathCache {
    /// Returns the path, if it was resolved for these versions of catalog and settings.
    pub(crate) fn get(&self, version: (u64, u64)) -> Option<Arc<SearchPath>> {
        self.path.as_ref().filter(|_| self.version == version).cloned()
    }

    /// Keeps the path of these versions.
    pub(crate) fn set(&mut self, version: (u64, u64), path: &Arc<SearchPath>) {
        self.version = version;
        self.path = Some(Arc::clone(path));
    }
}
