//! Long operations under way: index builds for `pg_stat_progress_create_index`, vacuums for
//! `pg_stat_progress_vacuum`.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::sync::Mutex;
use niwaki_table::BuildProgress;
use niwaki_vacuum::VacuumProgress;

/// Session and relations of one index build.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Number of the session.
    pub backend: i32,
    /// Number of the database.
    pub database: Oid,
    /// The command, as the view shows it.
    pub command: &'static str,
    /// Table and index, once they are known.
    pub relations: Option<(Oid, Oid)>,
}

/// Session and table of one vacuum.
#[derive(Clone, Copy, Debug)]
pub struct Vacuuming {
    /// Number of the session.
    pub backend: i32,
    /// Number of the database.
    pub database: Oid,
    /// Number of the table.
    pub table: Oid,
}

/// Index builds that are under way.
pub type Builds = Running<Build, BuildProgress>;
/// Vacuums that are under way.
pub type Vacuums = Running<Vacuuming, VacuumProgress>;
/// One index build.
pub type ProgressEntry = Entry<Build, BuildProgress>;

/// Running operations of one kind, with the last number given out.
#[derive(Debug)]
pub struct Running<A, P>(Mutex<(u64, Vec<One<A, P>>)>);

#[derive(Debug)]
struct One<A, P> {
    number: u64,
    about: A,
    progress: Arc<P>,
}

/// An operation's place in the list. Dropping the handle removes it.
#[derive(Debug)]
pub struct Entry<A, P> {
    all: Arc<Running<A, P>>,
    number: u64,
    progress: Arc<P>,
}

impl<A, P> Default for Running<A, P> {
    fn default() -> Self {
        Self(Mutex::new((0, Vec::new())))
    }
}

impl<A: Copy, P: Default> Running<A, P> {
    /// Adds an operation to the list.
    pub fn begin(self: &Arc<Self>, about: A) -> Entry<A, P> {
        let progress = Arc::new(P::default());
        let mut list = self.0.lock();
        list.0 += 1;
        let number = list.0;
        list.1.push(One { number, about, progress: Arc::clone(&progress) });
        drop(list);
        Entry { all: Arc::clone(self), number, progress }
    }

    /// Returns all operations under way.
    pub fn all(&self) -> Vec<(A, Arc<P>)> {
        self.0.lock().1.iter().map(|one| (one.about, Arc::clone(&one.progress))).collect()
    }
}

impl<A, P> Entry<A, P> {
    /// Returns the progress that the operation reports itself.
    pub fn progress(&self) -> &Arc<P> {
        &self.progress
    }
}

impl ProgressEntry {
    /// Sets the table and the index that are built.
    pub fn concerns(&self, table: Oid, index: Oid) {
        let mut list = self.all.0.lock();
        if let Some(one) = list.1.iter_mut().find(|one| one.number == self.number) {
            one.about.relations = Some((table, index));
        }
    }
}

impl<A, P> Drop for Entry<A, P> {
    fn drop(&mut self) {
        self.all.0.lock().1.retain(|one| one.number != self.number);
    }
}
