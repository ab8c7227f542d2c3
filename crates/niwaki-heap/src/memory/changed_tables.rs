//! The list of tables that were changed since the list was taken, for background tasks that look
//! after tables.
//!
//! With the list, such a task need not go through all tables.
//!
//! ```text
//!  change of a heap ──► reported already? yes, as a rule: one load
//!                       no: the table goes to the list    list ──► taken; each may be listed again
//! ```
//!
//! A task that takes the list visits each table once more after the visit that follows. The reason:
//! a change that was made at the moment when its table was taken may have found the old flag.

use std::fmt;
use std::sync::Weak;

use niwaki_env::sync::plain_atomic::{AtomicBool, Ordering};
use niwaki_env::sync::{Arc, Mutex};
use niwaki_txn::TableId;

/// Tables that were changed, in the order of their first changes.
#[derive(Default)]
pub struct ChangedTables(Mutex<Vec<Arc<ChangeFlag>>>);

impl fmt::Debug for ChangedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangedTables").finish_non_exhaustive()
    }
}

/// Flag that a table's change is on the list.
#[derive(Debug)]
pub struct ChangeFlag {
    table: TableId,
    reported: AtomicBool,
    list: Weak<ChangedTables>,
}

impl Default for ChangeFlag {
    /// Returns the flag of a heap whose changes no task wants.
    fn default() -> Self {
        Self { table: TableId(0), reported: AtomicBool::new(true), list: Weak::new() }
    }
}

impl ChangeFlag {
    /// Returns the flag of a table with this number, which was not changed yet.
    pub fn new(table: TableId, list: &Arc<ChangedTables>) -> Arc<Self> {
        Arc::new(Self { table, reported: AtomicBool::new(false), list: Arc::downgrade(list) })
    }

    /// Lists the table, because it was changed or needs care for another reason.
    #[inline]
    pub fn report(self: &Arc<Self>) {
        if !self.reported.load(Ordering::Relaxed) {
            self.report_first();
        }
    }

    #[cold]
    fn report_first(self: &Arc<Self>) {
        if let Some(list) = self.list.upgrade()
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            list.0.lock().push(Arc::clone(self));
        }
    }
}

impl ChangedTables {
    /// Takes the list: the numbers of the tables that were changed since it was taken last.
    pub fn take(&self) -> Vec<TableId> {
        let taken = std::mem::take(&mut *self.0.lock());
        taken
            .into_iter()
            .map(|of| {
                // Relaxed, here and above: the task that takes the list visits the table again
                // later (see the module).
                let reported = of.reported.swap(false, Ordering::Relaxed);
                debug_assert!(reported, "a table is on the list while its flag is up, and once");
                of.table
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_listed_once_until_it_is_taken() {
        let list = Arc::new(ChangedTables::default());
        let [one, two] = [1, 2].map(|number| ChangeFlag::new(TableId(number), &list));
        assert!(list.take().is_empty());
        [&two, &one, &two, &two].into_iter().for_each(ChangeFlag::report);
        Arc::new(ChangeFlag::default()).report();
        assert_eq!(list.take(), [TableId(2), TableId(1)]);
        assert!(list.take().is_empty());
        one.report();
        assert_eq!(list.take(), [TableId(1)]);
    }
}
