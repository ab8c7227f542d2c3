//! Numbers that name things on disk, each in its own type so that the compiler keeps them apart.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Position of an 8 KiB page in a fork, from 0.
    BlockNumber, u32
);
number!(
    /// Position of a line pointer on a page, from 1; 0 is invalid.
    OffsetNumber, u16
);
number!(
    /// Byte position in the write-ahead log, counted from the beginning of its history.
    ///
    /// The LSN of a record is the position just **after** the record, so that `flushed >= lsn`
    /// means that the record is durable.
    Lsn, u64
);
number!(
    /// Transaction id, 64 bits, never reused. 0 is invalid, 1 is "frozen": committed before all.
    Xid, u64
);
number!(
    /// Commit sequence number: the LSN of the transaction's commit record. 0 is invalid.
    Csn, u64
);
number!(
    /// Number of a relation's files; never reused.
    RelFileId, u64
);

impl Xid {
    /// No transaction.
    pub const INVALID: Self = Self(0);
    /// Committed, and visible to every snapshot.
    pub const FROZEN: Self = Self(1);
    /// First id given to a transaction.
    pub const FIRST_NORMAL: Self = Self(3);
    /// Returns whether the id belongs to an ordinary transaction: neither invalid nor frozen.
    #[inline]
    pub fn is_normal(self) -> bool {
        self >= Self::FIRST_NORMAL
    }
}

const _: () = assert!(Xid::INVALID.0 < Xid::FROZEN.0);
const _: () = assert!(Xid::FROZEN.0 < Xid::FIRST_NORMAL.0);

impl OffsetNumber {
    /// No line pointer.
    pub const INVALID: Self = Self(0);
    /// The first line pointer.
    pub const FIRST: Self = Self(1);
}

impl BlockNumber {
    /// No block.
    pub const INVALID: Self = Self(u32::MAX);
}

/// Address of a line pointer in a heap (TID). Index entries hold TIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    /// Heap page.
    pub block: BlockNumber,
    /// Line pointer on it.
    pub offset: OffsetNumber,
}

impl Tid {
    /// Smaller than every valid TID.
    pub const MIN: Self = Self { block: BlockNumber(0), offset: OffsetNumber(0) };
    /// Greater than every valid TID.
    pub const MAX: Self = Self { block: BlockNumber(u32::MAX), offset: OffsetNumber(u16::MAX) };
    /// Makes the TID of this block and offset.
    #[inline]
    pub fn new(block: u32, offset: u16) -> Self {
        Self { block: BlockNumber(block), offset: OffsetNumber(offset) }
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block, self.offset)
    }
}

/// One of the files of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fork {
    /// The rows, or the index.
    Main = 0,
    /// Free space map.
    FreeSpace = 1,
    /// Visibility map.
    Visibility = 2,
}

/// A relation's files, with the choice whether their changes are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelFile {
    /// The files' number.
    pub id: RelFileId,
    /// False for UNLOGGED relations: nothing reaches the log, and recovery empties them.
    pub logged: bool,
}

/// Names one page of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The relation's files.
    pub file: RelFileId,
    /// The fork.
    pub fork: Fork,
    /// The page within the fork.
    pub block: BlockNumber,
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} {:?} block {}", self.file, self.fork, self.block)
    }
}

/// First number given to a relation file; smaller ones are reserved for files with a fixed role.
pub const FIRST_FILE: RelFileId = RelFileId(16);

/// Folder of the relation files.
pub(crate) const BASE: &str = "base";

/// Returns the name of a fork's first segment inside [`BASE`].
pub(crate) fn fork_file_name(file: RelFileId, fork: Fork) -> String {
    let fork = match fork {
        Fork::Main => "main",
        Fork::FreeSpace => "free",
        Fork::Visibility => "visible",
    };
    format!("{file}.{fork}")
}

/// All forks of a relation.
pub(crate) const FORKS: [Fork; 3] = [Fork::Main, Fork::FreeSpace, Fork::Visibility];

// The numbers of the forks on disk count the list above.
const _: () = assert!(FORKS[Fork::Main as usize] as u8 == Fork::Main as u8);
const _: () = assert!(FORKS[Fork::FreeSpace as usize] as u8 == Fork::FreeSpace as u8);
const _: () = assert!(FORKS[Fork::Visibility as usize] as u8 == Fork::Visibility as u8);
