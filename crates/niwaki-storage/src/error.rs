//! Errors of storage and of the access methods above it.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Damage found on disk: what is wrong, and where.
#[derive(Clone, Debug)]
pub struct Corruption {
    /// File, relative to the data directory, or the relation.
    pub file: String,
    /// Block in it, when known.
    pub block: Option<u32>,
    /// Item (line pointer) on the block, when known.
    pub item: Option<u16>,
    /// Name of the invariant that does not hold (docs/internals/invariants.md), `"checksum"` or
    /// `"format"`.
    pub invariant: &'static str,
    /// The value found, and the value expected.
    pub detail: String,
}

/// `base/16.main block 5 item 3: H3.a violated: …`, as far as the place is known.
impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(block) = self.block {
            write!(f, " block {block}")?;
        }
        if let Some(item) = self.item {
            write!(f, " item {item}")?;
        }
        write!(f, ": {} violated: {}", self.invariant, self.detail)
    }
}

/// Errors of storage and of the access methods above it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The system refused a read or a write.
    #[error("{action}: {source}")]
    Io {
        /// The action that failed, and the file it was tried on.
        action: String,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// No room on disk; the statement fails and nothing is lost.
    #[error("{action}: no space left on device")]
    DiskFull {
        /// The action that failed, and the file it was tried on.
        action: String,
    },
    /// Damage on disk.
    #[error("{0}")]
    Corruption(Box<Corruption>),
    /// Every frame of the pool is pinned.
    #[error("no unpinned buffers available")]
    NoBuffers,
    /// The data directory cannot be used: locked by another process, other format version, not
    /// empty…
    #[error("{0}")]
    Refused(String),
}

/// Result of storage operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the damage that this error reports, as a finding of a check. A missing file breaks
    /// invariant F1.
    ///
    /// # Errors
    /// The error itself, when it reports no damage.
    pub fn into_damage(self) -> std::result::Result<Corruption, Self> {
        match self {
            Self::Corruption(damage) => Ok(*damage),
            Self::Io { action, source } if source.kind() == io::ErrorKind::NotFound => {
                let file = action.split('"').nth(1).unwrap_or("base").to_owned();
                let (block, item, invariant) = (None, None, "F1");
                Ok(Corruption {
                    file,
                    block,
                    item,
                    invariant,
                    detail: format!("{action}: {source}"),
                })
            }
            other => Err(other),
        }
    }

    /// Wraps a system error with the action that was tried; a full disk becomes
    /// [`Error::DiskFull`].
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::DiskFull { action };
        }
        Self::Io { action, source: Arc::new(source) }
    }
}
