//! The session as others know it: to cancel it, to end it, and in `pg_stat_activity`.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::sync::{Mutex, MutexGuard};
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::activity::{Activities, Activity, BackendType};
use niwaki_txn::SessionControl;
use niwaki_types::TypeError;
use niwaki_types::work::Asker;

/// A session among the others.
pub(crate) struct Identity {
    control: Arc<SessionControl>,
    activity: Arc<Mutex<Activity>>,
    user: String,
    /// Interrupt check that functions on large values call while they work.
    asker: Asker,
}

impl Identity {
    /// Adds the session of a client to the activities, in the database of this number.
    pub(crate) fn new(
        control: Arc<SessionControl>,
        activities: &Activities,
        database: Oid,
        user: &str,
    ) -> Self {
        let activity = activities.add(control.backend(), BackendType::Client);
        activity.lock().database = Some(database);
        let asked = Arc::clone(&control);
        let asker: Asker = Arc::new(move || {
            let interrupted = asked.check_interrupts().map_err(niwaki_txn::Error::from);
            interrupted.map_err(|error| {
                let error = SqlError::from(error);
                TypeError::new(error.sqlstate, error.message.clone())
            })
        });
        Self { control, activity, user: user.to_owned(), asker }
    }

    /// Returns the session as locks and interrupts know it.
    pub(crate) fn control(&self) -> &Arc<SessionControl> {
        &self.control
    }

    /// Returns the name of the user.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Returns the interrupt check for functions on large values.
    pub(crate) fn asker(&self) -> Asker {
        Arc::clone(&self.asker)
    }

    /// Returns the activity, locked for its readers.
    pub(crate) fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock()
    }

    /// Checks whether the session should stop.
    ///
    /// # Errors
    /// 57014 when the statement is cancelled or out of time, 57P01 when the session is to end.
    pub(crate) fn check_interrupts(&self) -> Result<()> {
        Ok(self.control.check_interrupts().map_err(niwaki_txn::Error::from)?)
    }

    /// Removes the session from the activities, because it ends.
    pub(crate) fn leave(&self, activities: &Activities) {
        activities.remove(self.control.backend(), &self.activity);
    }
}
