//! NOTIFY: messages of committed transactions for the sessions that listen.
//!
//! A transaction with messages waits, as the last step before its commit, until it is the next to
//! deliver (`LockManager::acquire_notifications`). It delivers after its commit is visible and
//! before its locks are released. So every session gets messages in the order of commits. A
//! transaction with a LISTEN waits in the same way. So no session begins to listen after another
//! transaction has reserved room and before that transaction has delivered.
//!
//! Messages wait in memory, under one bound for all sessions together. A transaction that would
//! exceed the bound cannot commit (54000). A session that listens and never takes its messages can
//! fill the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_env::memory;
use niwaki_env::sync::Mutex;
use niwaki_sql::{Result, SqlError};
use niwaki_txn::SessionControl;

/// Longest name of a channel, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;
/// Longest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 7999;
/// Most bytes of all waiting messages together.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// A message from another session, or from this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Number of the session that sent it (its process number in the protocol).
    pub sender: i32,
    /// Channel.
    pub channel: String,
    /// Payload; empty when none was given.
    pub payload: String,
}

impl Notification {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.allocated()
    }

    /// Returns the heap bytes that were allocated for this message alone.
    fn allocated(&self) -> usize {
        self.channel.capacity() + self.payload.capacity()
    }
}

/// Called when a message arrives for a session. The function must not block.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Sessions that listen, with the messages that wait for them.
#[derive(Default)]
pub struct Notifications {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    listeners: HashMap<i32, Listener>,
    /// Total size of all waiting messages.
    bytes: usize,
}

struct Listener {
    session: Weak<SessionControl>,
    /// Channels in the order of their LISTEN statements.
    channels: Vec<String>,
    waiting: VecDeque<Notification>,
    waker: Option<Waker>,
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifications").finish_non_exhaustive()
    }
}

impl Notifications {
    /// Returns how full the queue is, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.inner.lock().bytes as f64 / QUEUE_BYTES_MAX as f64
    }

    /// Returns the channels that a session listens to.
    pub fn channels(&self, backend: i32) -> Vec<String> {
        let inner = self.inner.lock();
        inner.listeners.get(&backend).map(|l| l.channels.clone()).unwrap_or_default()
    }

    /// Takes the next message of a session.
    pub fn take(&self, backend: i32) -> Option<Notification> {
        let mut inner = self.inner.lock();
        let next = inner.listeners.get_mut(&backend)?.waiting.pop_front()?;
        inner.bytes = inner.bytes.saturating_sub(next.bytes());
        memory::take_over(next.allocated());
        Some(next)
    }

    /// Sets the function that is called whenever messages arrive for a listening session.
    pub fn wake_by(&self, backend: i32, waker: Waker) {
        if let Some(listener) = self.inner.lock().listeners.get_mut(&backend) {
            listener.waker = Some(waker);
        }
    }

    /// Removes a session that has ended, with its messages.
    pub fn forget(&self, backend: i32) {
        let mut inner = self.inner.lock();
        if let Some(listener) = inner.listeners.remove(&backend) {
            let bytes: usize = listener.waiting.iter().map(Notification::bytes).sum();
            inner.bytes = inner.bytes.saturating_sub(bytes);
            memory::take_over(listener.waiting.iter().map(Notification::allocated).sum());
        }
    }

    /// Fails when the messages do not fit. The caller is the next to deliver: until then no other
    /// session delivers or begins to listen, so the room found here stays.
    fn reserve(&self, pending: &Pending, backend: i32) -> Result<()> {
        let inner = self.inner.lock();
        let others = inner.listeners.iter().filter(|(listener, _)| **listener != backend);
        let mut own = inner.listeners.get(&backend).map(|l| l.channels.clone()).unwrap_or_default();
        pending.changes.iter().for_each(|change| change.apply(&mut own));
        let listened: Vec<&Vec<String>> =
            others.map(|(_, listener)| &listener.channels).chain([&own]).collect();
        let copies = |message: &Message| {
            listened.iter().filter(|channels| channels.contains(&message.channel)).count()
        };
        let bytes: usize = pending
            .sent
            .iter()
            .map(|message| copies(message) * message.clone().sent_by(backend).bytes())
            .sum();
        if inner.bytes.saturating_add(bytes) > QUEUE_BYTES_MAX {
            return Err(SqlError::new("54000", "too many notifications in the NOTIFY queue"));
        }
        Ok(())
    }

    /// Applies a committed transaction's LISTEN and UNLISTEN statements, and delivers its messages.
    fn committed(&self, session: &Arc<SessionControl>, pending: &Pending) {
        let backend = session.backend();
        let mut woken = Vec::new();
        {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            for change in &pending.changes {
                inner.change(session, change);
            }
            for message in &pending.sent {
                let note = message.clone().sent_by(backend);
                for listener in inner.listeners.values_mut() {
                    if listener.channels.contains(&note.channel) {
                        inner.bytes += note.bytes();
                        let copy = note.clone();
                        memory::hand_over(copy.allocated());
                        listener.waiting.push_back(copy);
                        woken.push((listener.session.clone(), listener.waker.clone()));
                    }
                }
            }
        }
        for (session, waker) in woken {
            if let Some(session) = session.upgrade() {
                session.wake();
            }
            if let Some(waker) = waker {
                waker();
            }
        }
    }
}

impl Inner {
    fn change(&mut self, session: &Arc<SessionControl>, change: &ChannelChange) {
        let backend = session.backend();
        let listener = match change {
            ChannelChange::Listen(_) => {
                Some(self.listeners.entry(backend).or_insert_with(|| Listener {
                    session: Arc::downgrade(session),
                    channels: Vec::new(),
                    waiting: VecDeque::new(),
                    waker: None,
                }))
            }
            ChannelChange::Unlisten(_) | ChannelChange::UnlistenAll => {
                self.listeners.get_mut(&backend)
            }
        };
        if let Some(listener) = listener {
            change.apply(&mut listener.channels);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    channel: String,
    payload: String,
}

impl Message {
    fn sent_by(self, sender: i32) -> Notification {
        Notification { sender, channel: self.channel, payload: self.payload }
    }
}

#[derive(Clone, Debug)]
enum ChannelChange {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

impl ChannelChange {
    /// Makes the change to the channels of a session.
    fn apply(&self, channels: &mut Vec<String>) {
        match self {
            Self::Listen(channel) if channels.contains(channel) => {}
            Self::Listen(channel) => channels.push(channel.clone()),
            Self::Unlisten(channel) => channels.retain(|other| other != channel),
            Self::UnlistenAll => channels.clear(),
        }
    }
}

/// LISTEN, UNLISTEN and NOTIFY statements of a transaction. They take effect only at the commit.
#[derive(Debug, Default)]
pub struct Pending {
    changes: Vec<ChannelChange>,
    sent: Vec<Message>,
    /// Messages of `sent`, to send no message twice.
    known: HashSet<Message>,
}

impl Pending {
    /// Returns whether nothing waits for the commit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.sent.is_empty()
    }

    /// Decides whether the transaction has executed a LISTEN.
    pub fn listens(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, ChannelChange::Listen(_)))
    }

    /// Returns a mark for [`Pending::rollback_to`].
    pub fn mark(&self) -> (usize, usize) {
        (self.changes.len(), self.sent.len())
    }

    /// Forgets the changes and messages that came after the mark.
    pub fn rollback_to(&mut self, (changes, sent): (usize, usize)) {
        self.changes.truncate(changes);
        for message in self.sent.drain(sent.min(self.sent.len())..) {
            self.known.remove(&message);
        }
    }

    /// Forgets all, because the transaction ends.
    pub fn clear(&mut self) {
        self.rollback_to((0, 0));
    }

    /// Listens to a channel from the commit on.
    pub fn listen(&mut self, channel: &str) {
        self.changes.push(ChannelChange::Listen(channel.to_owned()));
    }

    /// Adds an UNLISTEN. `None` means all channels.
    pub fn unlisten(&mut self, channel: Option<&str>) {
        self.changes.push(match channel {
            Some(channel) => ChannelChange::Unlisten(channel.to_owned()),
            None => ChannelChange::UnlistenAll,
        });
    }

    /// Adds a message for the commit, unless the transaction sends the same message already.
    ///
    /// # Errors
    /// 22023 for an empty channel name, and for a channel name or payload that is too long.
    pub fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        let invalid = |message: &str| Err(SqlError::new("22023", message));
        if channel.is_empty() {
            return invalid("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return invalid("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return invalid("payload string too long");
        }
        let message = Message { channel: channel.to_owned(), payload: payload.to_owned() };
        if self.known.insert(message.clone()) {
            self.sent.push(message);
        }
        Ok(())
    }

    /// Prepares the commit: waits until the transaction is the next to deliver, if it has messages
    /// or a LISTEN.
    ///
    /// # Errors
    /// The errors of a lock wait; 54000 when the queue is full.
    pub fn before_commit(
        &self,
        transaction: &niwaki_txn::Transaction,
        notifications: &Notifications,
    ) -> Result<()> {
        if self.sent.is_empty() && !self.listens() {
            return Ok(());
        }
        transaction.manager().locks().acquire_notifications(transaction)?;
        notifications.reserve(self, transaction.session().backend())
    }

    /// Delivers. The commit is visible, and the transaction still holds its locks.
    pub fn committed(&self, session: &Arc<SessionControl>, notifications: &Notifications) {
        notifications.committed(session, self);
    }
}
