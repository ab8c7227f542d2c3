//! What goes into a heap operation and what comes out of it.

use niwaki_storage::Tid;

/// A row to store.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Columns the bytes hold.
    pub natts: u16,
    /// Whether the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// The stored form of the values (`niwaki_types::form_row`).
    pub bytes: &'a [u8],
}

/// Which row is to be changed or locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTarget {
    /// Root of the row's chain: what scans and indexes give.
    pub root: Tid,
    /// The version whose contents the caller has judged, when it is not the one that its snapshot
    /// sees: an earlier attempt locked it for this transaction and handed it out, so it stays where
    /// it is (rule 9b.5).
    pub version: Option<Tid>,
}

impl RowTarget {
    /// The version of this row that the snapshot sees.
    #[inline]
    pub fn visible(root: Tid) -> Self {
        Self { root, version: None }
    }
}

/// Strength of a row lock, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLockStrength {
    /// `FOR KEY SHARE`: the key must stay.
    KeyShare,
    /// `FOR SHARE`: the row must stay.
    Share,
    /// `FOR NO KEY UPDATE`, and updates that change no key.
    NoKeyUpdate,
    /// `FOR UPDATE`, deletions, and updates that change a key.
    Update,
}

/// Contents of one version, copied from its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRow {
    /// Columns the bytes hold.
    pub natts: u16,
    /// Whether the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// The stored values.
    pub bytes: Vec<u8>,
}
