//! System views and what they, and the administration functions, ask of the running database.

use std::fmt::Debug;

use niwaki_types::Datum;

use crate::definition::Oid;
use crate::error::Result;
use crate::state::{CatalogState, SearchPath};

/// The first id that a transaction gets.
const FIRST_XID: u64 = 3;

/// The one value of a column that a reader wants; never NULL.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// Position of the column.
    pub column: usize,
    /// Its value, of the column's type.
    pub value: &'k Datum,
}

/// A relation whose rows are computed when it is read: `pg_class`, `pg_stat_activity`, ….
pub trait VirtualTable: Send + Sync + Debug {
    /// Gives every row, in the order of the relation's columns. With a key, rows with another value in that column
    /// may be left out; the caller judges the others again.
    ///
    /// # Errors
    /// Those of what it reads, and of `row`.
    fn rows(
        &self,
        state: &CatalogState,
        source: &dyn SystemSource,
        key: Option<Key<'_>>,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()>;

    /// Whether the rows with one value of this column, by position, are found without looking at all others.
    fn has_key(&self, _column: usize) -> bool {
        false
    }
}

/// What the running database tells about itself. Implemented by the library, handed to the
/// executor, so that views and functions can be evaluated without naming the layers above.
pub trait SystemSource {
    /// Bytes of one fork (`main`, `fsm`, `vm`) of a relation's files.
    ///
    /// # Errors
    /// Storage errors.
    fn relation_bytes(&self, state: &CatalogState, oid: Oid, fork: &str) -> Result<u64>;
    /// Bytes of all files of a database, its catalog's among them.
    ///
    /// # Errors
    /// Storage errors.
    fn database_bytes(&self, database: Oid) -> Result<u64>;
    /// Reads blocks of one fork of a relation, which is locked, into the pool, as far as they exist.
    ///
    /// # Errors
    /// Storage errors.
    fn read_in(
        &self,
        state: &CatalogState,
        oid: Oid,
        fork: &str,
        blocks: std::ops::Range<u32>,
    ) -> Result<()>;
    /// Where the next log record goes.
    fn wal_insert_lsn(&self) -> u64;
    /// Up to where the log is durable.
    fn wal_flushed_lsn(&self) -> u64;
    /// By which search path definitions are shown; without one they are shown by the usual one.
    fn search_path(&self) -> Option<&SearchPath> {
        None
    }
    /// This session's number, as `pg_backend_pid()` shows it.
    fn session_id(&self) -> i32;
    /// Asks another session to cancel its statement; false when there is no such session.
    fn cancel(&self, session: i32) -> bool;
    /// Asks another session to end; false when there is no such session.
    fn terminate(&self, session: i32) -> bool;
    /// Whether there is a session of this number.
    fn is_session(&self, _session: i32) -> bool {
        false
    }
    /// When the database was opened, in microseconds since 2000-01-01 UTC.
    fn opened_us(&self) -> i64 {
        0
    }
    /// The next transaction id that is given out.
    fn next_xid(&self) -> u64 {
        FIRST_XID
    }
    /// Has the counters of the session's database, and of all in it, shown from 0 again.
    fn reset_statistics(&self, _state: &CatalogState) {}
    /// Sessions that the given one waits for.
    fn blocking(&self, session: i32) -> Vec<i32>;
    /// Rows of a view that only the library can compute (`pg_settings`, `pg_stat_activity`, …): each
    /// in the order of the view's columns.
    ///
    /// # Errors
    /// Those of what the view reads.
    fn view_rows(
        &self,
        view: &str,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()>;
}
