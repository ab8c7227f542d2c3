//! Index builds that are under way, for `pg_stat_progress_create_index`.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::sync::Mutex;
use niwaki_table::{BuildProgress, BuildState};

/// One build.
#[derive(Clone, Debug)]
struct Build {
    number: u64,
    backend: i32,
    command: &'static str,
    /// Table and index, when they are known.
    relations: Option<(Oid, Oid)>,
    progress: Arc<BuildProgress>,
}

/// All builds of a database: the last number given, and those under way.
#[derive(Debug, Default)]
pub(crate) struct Builds(Mutex<(u64, Vec<Build>)>);

/// A build's place in the list; it leaves with this handle.
#[derive(Debug)]
pub(crate) struct ProgressEntry {
    builds: Arc<Builds>,
    number: u64,
    progress: Arc<BuildProgress>,
}

/// What the view shows of one build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildInfo {
    pub(crate) backend: i32,
    pub(crate) command: &'static str,
    pub(crate) table: Oid,
    pub(crate) index: Oid,
    pub(crate) state: BuildState,
}

impl Builds {
    /// Enters a build of a session.
    pub(crate) fn begin(self: &Arc<Self>, backend: i32, command: &'static str) -> ProgressEntry {
        let progress = Arc::new(BuildProgress::default());
        let mut list = self.0.lock();
        list.0 += 1;
        let number = list.0;
        let build =
            Build { number, backend, command, relations: None, progress: Arc::clone(&progress) };
        list.1.push(build);
        drop(list);
        ProgressEntry { builds: Arc::clone(self), number, progress }
    }

    /// Builds whose relations are known.
    pub(crate) fn infos(&self) -> Vec<BuildInfo> {
        let list = self.0.lock();
        let known = list.1.iter().filter_map(|build| {
            let (table, index) = build.relations?;
            let state = build.progress.state();
            Some(BuildInfo { backend: build.backend, command: build.command, table, index, state })
        });
        known.collect()
    }
}

impl ProgressEntry {
    /// Names what is built.
    pub(crate) fn concerns(&self, table: Oid, index: Oid) {
        let mut list = self.builds.0.lock();
        if let Some(build) = list.1.iter_mut().find(|build| build.number == self.number) {
            build.relations = Some((table, index));
        }
    }

    /// What the build itself tells.
    pub(crate) fn build(&self) -> &Arc<BuildProgress> {
        &self.progress
    }
}

impl Drop for ProgressEntry {
    fn drop(&mut self) {
        self.builds.0.lock().1.retain(|build| build.number != self.number);
    }
}
