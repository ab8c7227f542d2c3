//! Lock modes and their conflicts.

use crate::locks::key::LockKey;

/// Modes of a table lock, as in PostgreSQL, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TableLockMode {
    /// SELECT
    AccessShare = 0,
    /// SELECT FOR UPDATE / SHARE
    RowShare = 1,
    /// INSERT, UPDATE, DELETE
    RowExclusive = 2,
    /// VACUUM, ANALYZE, CREATE INDEX CONCURRENTLY
    ShareUpdateExclusive = 3,
    /// CREATE INDEX
    Share = 4,
    /// CREATE TRIGGER
    ShareRowExclusive = 5,
    /// REFRESH MATERIALIZED VIEW CONCURRENTLY
    Exclusive = 6,
    /// DROP TABLE, TRUNCATE, most of ALTER TABLE
    AccessExclusive = 7,
}

/// For each table mode, the modes it excludes, as bits.
const TABLE_CONFLICTS: [u8; 8] = [
    0b1000_0000, // AccessShare: AccessExclusive
    0b1100_0000, // RowShare: Exclusive and AccessExclusive
    0b1111_0000, // RowExclusive: Share and all stronger ones
    0b1111_1000, // ShareUpdateExclusive: itself and all stronger ones
    0b1110_1100, // Share: RowExclusive, ShareUpdateExclusive, ShareRowExclusive and stronger ones
    0b1111_1100, // ShareRowExclusive: RowExclusive and all stronger ones
    0b1111_1110, // Exclusive: everything but AccessShare
    0b1111_1111, // AccessExclusive: everything
];

const _: () = assert!(is_symmetric(&TABLE_CONFLICTS), "one excludes, the other is not excluded");
const _: () = assert!(
    (TABLE_CONFLICTS[0] | TABLE_CONFLICTS[1] | TABLE_CONFLICTS[2]) & 0b111 == 0,
    "a weak mode excludes a weak one"
);
const _: () = assert!(TABLE_CONFLICTS[7] == u8::MAX, "the strongest mode excludes all");
// A fast-path lock in a weak mode stands for the weaker modes too.
const _: () =
    assert!(TABLE_CONFLICTS[0] & !TABLE_CONFLICTS[1] == 0, "RowShare excludes too little");
const _: () =
    assert!(TABLE_CONFLICTS[1] & !TABLE_CONFLICTS[2] == 0, "RowExclusive excludes too little");

// The bit of a mode is its place in the list.
const _: () = assert!(TableLockMode::ALL[7] as u8 == 7, "the strongest mode has another place");
const _: () = assert!(RowLockMode::ALL[3] as u8 == 3, "the strongest mode has another place");

/// Returns whether each mode excludes the modes that exclude it.
const fn is_symmetric(conflicts: &[u8]) -> bool {
    let mut one = 0;
    while one < conflicts.len() {
        let mut other = 0;
        while other < conflicts.len() {
            if (conflicts[one] >> other) & 1 != (conflicts[other] >> one) & 1 {
                return false;
            }
            other += 1;
        }
        one += 1;
    }
    true
}

impl TableLockMode {
    /// All modes, from weak to strong.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// Returns whether two sessions cannot hold these modes at the same time.
    pub fn conflicts_with(self, other: Self) -> bool {
        TABLE_CONFLICTS[self as usize] & 1 << other as u8 != 0
    }

    /// Returns PostgreSQL's name of the mode, as `pg_locks.mode` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "AccessShareLock",
            Self::RowShare => "RowShareLock",
            Self::RowExclusive => "RowExclusiveLock",
            Self::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Self::Share => "ShareLock",
            Self::ShareRowExclusive => "ShareRowExclusiveLock",
            Self::Exclusive => "ExclusiveLock",
            Self::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

/// Modes of a row lock, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RowLockMode {
    /// FOR KEY SHARE
    KeyShare = 0,
    /// FOR SHARE
    Share = 1,
    /// FOR NO KEY UPDATE, and an update that leaves the keys alone
    NoKeyUpdate = 2,
    /// FOR UPDATE, a delete, and an update that changes a key
    Update = 3,
}

/// For each row mode, the modes it excludes, as bits.
const ROW_CONFLICTS: [u8; 4] = [
    0b1000, // KeyShare: Update
    0b1100, // Share: NoKeyUpdate, Update
    0b1110, // NoKeyUpdate: all but KeyShare
    0b1111, // Update: all
];

const _: () = assert!(is_symmetric(&ROW_CONFLICTS), "one excludes, the other is not excluded");
const _: () = assert!(ROW_CONFLICTS[3] == 0b1111, "the strongest mode excludes all");
// A lock in a stronger mode stands for the weaker ones: it excludes what they exclude.
const _: () = assert!(ROW_CONFLICTS[0] & !ROW_CONFLICTS[1] == 0, "Share excludes too little");
const _: () = assert!(ROW_CONFLICTS[1] & !ROW_CONFLICTS[2] == 0, "NoKeyUpdate excludes too little");
// A change that leaves the keys alone and a reference to the keys do not wait for each other.
const _: () = assert!(ROW_CONFLICTS[0] & 1 << 2 == 0, "KeyShare excludes NoKeyUpdate");

impl RowLockMode {
    /// All modes, from weak to strong.
    pub const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// Returns whether two transactions cannot hold these modes on one row at the same time.
    pub fn conflicts_with(self, other: Self) -> bool {
        ROW_CONFLICTS[self as usize] & 1 << other as u8 != 0
    }

    /// Returns the locking clause of SELECT that asks for the mode.
    pub fn clause(self) -> &'static str {
        match self {
            Self::KeyShare => "FOR KEY SHARE",
            Self::Share => "FOR SHARE",
            Self::NoKeyUpdate => "FOR NO KEY UPDATE",
            Self::Update => "FOR UPDATE",
        }
    }
}

/// Any mode, as the lock table sees it: a bit, and the bits it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) bit: u8,
    pub(crate) excludes: u8,
}

impl Mode {
    /// Returns the mode of a lock on `key` with this bit.
    pub(crate) fn of(key: &LockKey, bit: u8) -> Self {
        debug_assert!(bit.is_power_of_two(), "{bit:#b} is not one mode of {key:?}");
        let at = bit.trailing_zeros() as usize;
        match key {
            LockKey::Table(_) | LockKey::Advisory(_) | LockKey::Notifications => {
                TableLockMode::ALL[at].into()
            }
            LockKey::Row(_) | LockKey::Tuple { .. } | LockKey::Transaction(_) => {
                RowLockMode::ALL[at].into()
            }
        }
    }
}

impl From<TableLockMode> for Mode {
    fn from(mode: TableLockMode) -> Self {
        Self { bit: 1 << mode as u8, excludes: TABLE_CONFLICTS[mode as usize] }
    }
}

impl From<RowLockMode> for Mode {
    fn from(mode: RowLockMode) -> Self {
        Self { bit: 1 << mode as u8, excludes: ROW_CONFLICTS[mode as usize] }
    }
}

/// Returns the modes of a set, each as its bit.
pub(crate) fn bits(modes: u8) -> impl Iterator<Item = u8> {
    (0..u8::BITS).map(|bit| 1 << bit).filter(move |bit| modes & bit != 0)
}

/// Returns PostgreSQL's name of the mode with this bit.
pub(crate) fn mode_name(key: &LockKey, bit: u8, granted: bool) -> &'static str {
    let at = bit.trailing_zeros() as usize;
    match key {
        LockKey::Table(_) | LockKey::Advisory(_) | LockKey::Notifications => {
            TableLockMode::ALL[at].name()
        }
        LockKey::Transaction(_) if granted => "ExclusiveLock",
        LockKey::Transaction(_) => "ShareLock",
        LockKey::Row(_) | LockKey::Tuple { .. } => match RowLockMode::ALL[at] {
            RowLockMode::KeyShare => "AccessShareLock",
            RowLockMode::Share => "RowShareLock",
            RowLockMode::NoKeyUpdate => "ExclusiveLock",
            RowLockMode::Update => "AccessExclusiveLock",
        },
    }
}
