//! Interface between system views, administration functions and the running database.

use std::fmt::Debug;
use std::ops::Range;

use niwaki_types::Datum;

use crate::definition::schema::SearchPath;
use crate::error::Result;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;

/// The first transaction id that is given out.
const FIRST_XID: u64 = 3;

/// The one value of a column that a reader wants; never NULL.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// Position of the column.
    pub column: usize,
    /// The wanted value, of the column's type.
    pub value: &'k Datum,
}

/// A relation whose rows are computed when it is read: `pg_class`, `pg_stat_activity`, ….
pub trait VirtualTable: Send + Sync + Debug {
    /// Gives every row, in the order of the relation's columns. With a key, rows with another value
    /// in that column may be left out. The caller tests the given rows again.
    ///
    /// # Errors
    /// The errors of the data that it reads, and of `row`.
    fn rows(
        &self,
        state: &CatalogState,
        source: &dyn SystemSource,
        key: Option<Key<'_>>,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()>;

    /// Decides whether rows with one value of this column, by position, are found without a read of
    /// all others.
    fn has_key(&self, _column: usize) -> bool {
        false
    }
}

/// Information from the running database. The library implements it and gives it to the executor,
/// so that views and functions can be evaluated without naming the layers above.
///
/// No method has a default. A default would hide a method that the library forgot, and a view would
/// then show a wrong value. [`NoSystem`] is the source where nothing runs.
pub trait SystemSource {
    /// Returns the bytes of one fork (`main`, `fsm`, `vm`) of a relation's files.
    ///
    /// # Errors
    /// Storage errors.
    fn relation_bytes(&self, state: &CatalogState, oid: Oid, fork: &str) -> Result<u64>;
    /// Returns the bytes of all files of a database, its catalog's included.
    ///
    /// # Errors
    /// Storage errors.
    fn database_bytes(&self, database: Oid) -> Result<u64>;
    /// Reads the given blocks into the pool, as far as they exist. They belong to one fork of a
    /// relation that is locked.
    ///
    /// # Errors
    /// Storage errors.
    fn read_in(&self, state: &CatalogState, oid: Oid, fork: &str, blocks: Range<u32>)
    -> Result<()>;
    /// Returns the position of the next log record.
    fn wal_insert_lsn(&self) -> u64;
    /// Returns the position up to which the log is durable.
    fn wal_flushed_lsn(&self) -> u64;
    /// Returns the search path for showing definitions. Without one, the usual search path applies.
    fn search_path(&self) -> Option<&SearchPath>;
    /// Returns this session's number, as `pg_backend_pid()` shows it.
    fn session_id(&self) -> i32;
    /// Asks another session to cancel its statement. Returns false when there is no such session.
    fn cancel(&self, session: i32) -> bool;
    /// Asks another session to end. Returns false when there is no such session.
    fn terminate(&self, session: i32) -> bool;
    /// Decides whether a session of this number exists.
    fn is_session(&self, session: i32) -> bool;
    /// Returns when the database was opened, in microseconds since 2000-01-01 UTC.
    fn opened_us(&self) -> i64;
    /// Returns the next transaction id.
    fn next_xid(&self) -> u64;
    /// Makes the counters of the session's database, and of all objects in it, count from 0 again.
    fn reset_statistics(&self, state: &CatalogState);
    /// Returns the sessions that the given session waits for.
    fn blocking(&self, session: i32) -> Vec<i32>;
    /// Gives the rows of a view that only the library can compute (`pg_settings`,
    /// `pg_stat_activity`, …). The values are in the order of the view's columns.
    ///
    /// # Errors
    /// The errors of the data that the view reads.
    fn view_rows(
        &self,
        view: &str,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()>;
}

/// The source where no database runs: for expressions without a session, and for tests. Nothing has
/// a size, no session exists, and views have no rows.
#[derive(Clone, Copy, Debug)]
pub struct NoSystem;

impl SystemSource for NoSystem {
    fn relation_bytes(&self, _: &CatalogState, _: Oid, _: &str) -> Result<u64> {
        Ok(0)
    }
    fn database_bytes(&self, _: Oid) -> Result<u64> {
        Ok(0)
    }
    fn read_in(&self, _: &CatalogState, _: Oid, _: &str, _: Range<u32>) -> Result<()> {
        Ok(())
    }
    fn wal_insert_lsn(&self) -> u64 {
        0
    }
    fn wal_flushed_lsn(&self) -> u64 {
        0
    }
    fn search_path(&self) -> Option<&SearchPath> {
        None
    }
    fn session_id(&self) -> i32 {
        0
    }
    fn cancel(&self, _: i32) -> bool {
        false
    }
    fn terminate(&self, _: i32) -> bool {
        false
    }
    fn is_session(&self, _: i32) -> bool {
        false
    }
    fn opened_us(&self) -> i64 {
        0
    }
    fn next_xid(&self) -> u64 {
        FIRST_XID
    }
    fn reset_statistics(&self, _: &CatalogState) {}
    fn blocking(&self, _: i32) -> Vec<i32> {
        Vec::new()
    }
    fn view_rows(
        &self,
        _: &str,
        _: &CatalogState,
        _: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
}
