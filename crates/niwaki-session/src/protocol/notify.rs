//! LISTEN, NOTIFY, UNLISTEN, and the receipt of notifications.

use std::sync::Arc;
use std::time::Duration;

use niwaki_directory::notifications::Notification;
use niwaki_sql::Result;

use crate::session::handle::Session;
use crate::session::state::block::Block;

/// Longest part of a wait before the clock and the queue are looked at again.
const NAP: Duration = Duration::from_secs(1);

impl Session {
    pub(crate) fn listen(&mut self, channel: &str) {
        self.messages.pending_mut().listen(channel);
    }

    pub(crate) fn unlisten(&mut self, channel: Option<&str>) {
        self.messages.pending_mut().unlisten(channel);
    }

    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        self.messages.pending_mut().notify(channel, payload)
    }

    /// Takes the next message on a channel that this session listens to. Returns `None` while a
    /// transaction is open: other sessions' messages do not change what a transaction sees.
    #[inline]
    pub fn take_notification(&mut self) -> Option<Notification> {
        if !self.messages.has_listened() || self.block.state() != Block::Idle {
            return None;
        }
        self.connection.notifications().take(self.id())
    }

    /// Waits for the next message, at most for `timeout`. Returns `None` when no message came.
    ///
    /// # Errors
    /// 57014 when the wait is cancelled, 57P01 when the session is to end.
    pub fn wait_for_notification(&mut self, timeout: Duration) -> Result<Option<Notification>> {
        let clock = Arc::clone(&self.directory.env().clock);
        let end = clock.monotonic().saturating_add(timeout);
        self.identity.control().begin_statement(None);
        loop {
            if let Some(notification) = self.take_notification() {
                return Ok(Some(notification));
            }
            let left = end.saturating_sub(clock.monotonic());
            if left.is_zero() || self.block.state() != Block::Idle {
                return Ok(None);
            }
            self.identity.control().nap(left.min(NAP)).map_err(niwaki_txn::Error::from)?;
        }
    }

    /// Returns whether this session listens to some channel, or has listened to one.
    #[inline]
    pub fn has_listened(&self) -> bool {
        self.messages.has_listened()
    }

    /// Registers `wake`, which the sender's thread calls when a message can be taken. `wake` must
    /// not block. It is called from the first committed LISTEN until the session ends.
    pub fn wake_by(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.connection.notifications().wake_by(self.id(), wake);
    }
}

#[cfg(test)]
mod tests {
    use niwaki_env::Env;
    use niwaki_sql::utility::{CreateTableAs, Utility};
    use niwaki_sql::{Result, SqlError};
    use niwaki_types::{Datum, TypeOid};

    use crate::directory::{Directory, Options};
    use crate::result::ResultSink;
    use crate::session::definitions::Definitions;
    use crate::session::handle::Session;

    /// Refuses all statements that define.
    struct Nothing;

    impl Definitions<Session> for Nothing {
        fn run(
            &self,
            _: &mut Session,
            _: &Utility,
            _: &str,
            _: &mut dyn ResultSink,
        ) -> Result<&'static str> {
            Err(SqlError::unsupported("defining"))
        }
        fn run_in_steps(
            &self,
            _: &mut Session,
            _: &Utility,
            _: &mut dyn ResultSink,
        ) -> Result<&'static str> {
            Err(SqlError::unsupported("defining"))
        }
        fn create_table_as(
            &self,
            _: &mut Session,
            _: &CreateTableAs,
            _: &str,
            _: &[(TypeOid, Datum)],
            _: &mut dyn ResultSink,
        ) -> Result<Option<u64>> {
            Err(SqlError::unsupported("defining"))
        }
    }

    fn listen(session: &mut Session) -> Result<()> {
        session.ensure_transaction()?;
        session.listen("x");
        session.commit()
    }

    /// The bound of the queue counts the listeners at the reservation; one more would exceed it.
    #[test]
    fn nobody_begins_to_listen_between_reservation_and_delivery() {
        let directory = Directory::open_with(Env::memory(), Options::new()).unwrap();
        let impatient = [("lock_timeout".to_owned(), "1ms".to_owned())];
        let open = |settings: &[(String, String)]| {
            Session::open(&directory, &Nothing, "postgres", "postgres", settings).unwrap()
        };
        let (mut sender, mut listener) = (open(&[]), open(&impatient));
        sender.ensure_transaction().unwrap();
        sender.notify("x", "sent").unwrap();
        let transaction = sender.open_transaction().unwrap();
        let notifications = sender.connection.notifications();
        sender.messages.pending().before_commit(transaction, notifications).unwrap();
        assert_eq!(listen(&mut listener).unwrap_err().sqlstate, "55P03");
        sender.commit().unwrap();
        listen(&mut listener).unwrap();
        assert_eq!(listener.take_notification(), None);
    }
}
