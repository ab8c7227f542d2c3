//! Messages between sessions: what the transaction sends, and whether the session listens.

use niwaki_directory::notifications::Pending;

/// Messages of a session.
#[derive(Default)]
pub(crate) struct Messages {
    /// Notifications that the transaction sends when it commits, and the channels that it then
    /// listens to.
    pending: Pending,
    /// Set once the session has listened to some channel.
    listened: bool,
}

impl Messages {
    /// Returns what waits for the commit.
    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Returns what waits for the commit, to change it.
    pub(crate) fn pending_mut(&mut self) -> &mut Pending {
        &mut self.pending
    }

    /// Takes what waits for the commit, which is about to happen. Returns `None` if nothing waits.
    pub(crate) fn take(&mut self) -> Option<Pending> {
        if self.pending.is_empty() {
            return None;
        }
        self.listened |= self.pending.listens();
        Some(std::mem::take(&mut self.pending))
    }

    /// Returns whether this session listens to some channel, or has listened to one.
    pub(crate) fn has_listened(&self) -> bool {
        self.listened
    }
}
