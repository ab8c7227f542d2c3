//! The transaction block: its state, its savepoints, and what its end undoes or does.

use niwaki_catalog::Oid;
use niwaki_heap::FreeingPaused;
use niwaki_sql::utility::{OnCommit, TransactionModes};

use crate::session::state::block::{Block, Level, Ran};

/// The session's part of its transaction.
pub(crate) struct TransactionBlock {
    state: Block,
    /// Statements that have run in the open transaction.
    ran: Ran,
    levels: Vec<Level>,
    /// Modes of the transaction before BEGIN or SET TRANSACTION changed them. AND CHAIN after a
    /// failure begins another transaction with these modes.
    began: TransactionModes,
    /// Relations whose files are new in this transaction, so that COPY FREEZE may load them.
    created: Vec<Oid>,
    /// Temporary tables that are emptied or dropped when a transaction ends.
    on_commit: Vec<(Oid, OnCommit)>,
    /// Tables whose indexes this transaction changes, and may have to change back. Meanwhile no
    /// line pointer of these tables is freed.
    freeing: Vec<FreeingPaused>,
}

impl Default for TransactionBlock {
    fn default() -> Self {
        Self {
            state: Block::Idle,
            ran: Ran::default(),
            levels: Vec::new(),
            began: TransactionModes::default(),
            created: Vec::new(),
            on_commit: Vec::new(),
            freeing: Vec::new(),
        }
    }
}

impl TransactionBlock {
    /// Returns the state of the block.
    pub(crate) fn state(&self) -> Block {
        self.state
    }

    /// Sets the state of the block.
    pub(crate) fn set(&mut self, state: Block) {
        self.state = state;
    }

    /// Returns the modes that the transaction had before statements changed them.
    pub(crate) fn began(&self) -> TransactionModes {
        self.began
    }

    /// Sets the modes that a transaction has before statements change them.
    pub(crate) fn set_began(&mut self, modes: TransactionModes) {
        self.began = modes;
    }

    /// Notes that a transaction has begun, in which no statement has run.
    pub(crate) fn nothing_ran(&mut self) {
        self.ran = Ran::default();
    }

    /// Returns the statements that have run in the transaction.
    pub(crate) fn ran(&self) -> Ran {
        self.ran
    }

    /// Notes whether a statement takes a snapshot.
    pub(crate) fn note_query(&mut self, takes_snapshot: bool) {
        self.ran.query |= takes_snapshot;
    }

    /// Notes whether an Execute message has run in an implicit transaction.
    pub(crate) fn note_message(&mut self, ran: bool) {
        self.ran.message |= ran && self.state == Block::Implicit;
    }

    /// Returns the number of savepoints.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the innermost savepoint.
    pub(crate) fn innermost(&self) -> Option<&Level> {
        self.levels.last()
    }

    /// Returns the position of the innermost savepoint of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.levels.iter().rposition(|level| level.name == name)
    }

    /// Adds a savepoint.
    pub(crate) fn push(&mut self, level: Level) {
        self.levels.push(level);
    }

    /// Returns the numbers of new relations and of pauses, for a savepoint.
    pub(crate) fn marks(&self) -> (usize, usize) {
        (self.created.len(), self.freeing.len())
    }

    /// Removes a savepoint and those after it. Returns its access mode.
    pub(crate) fn release(&mut self, at: usize) -> bool {
        let read_only = self.levels[at].read_only;
        self.levels.truncate(at);
        read_only
    }

    /// Forgets what came after a savepoint, which stays. Returns the savepoint.
    pub(crate) fn back_to(&mut self, at: usize) -> Option<&Level> {
        self.levels.truncate(at + 1);
        let level = self.levels.last()?;
        self.created.truncate(level.created);
        Some(level)
    }

    /// Forgets savepoints and new relations, because the transaction ends.
    pub(crate) fn forget(&mut self) {
        self.levels.clear();
        self.created.clear();
    }

    /// Notes that the relation's files are new in this transaction, since its last savepoint.
    pub(crate) fn note_created(&mut self, oid: Oid) {
        if !self.is_created_here(oid) {
            self.created.push(oid);
        }
    }

    /// Returns whether COPY FREEZE may load the relation: its files are new in this transaction.
    pub(crate) fn is_created_here(&self, oid: Oid) -> bool {
        let since = self.levels.last().map_or(0, |level| level.created);
        self.created.iter().skip(since).any(|created| *created == oid)
    }

    /// Keeps line pointers of a table from being freed until the transaction ends.
    pub(crate) fn pause_freeing(&mut self, paused: FreeingPaused) {
        self.freeing.push(paused);
    }

    /// Notes that the index is built for which freeing was paused last.
    pub(crate) fn note_built(&mut self) {
        if let Some(paused) = self.freeing.last_mut() {
            paused.built();
        }
    }

    /// Lets line pointers be freed again, after a commit.
    pub(crate) fn free_again(&mut self) {
        self.freeing.clear();
    }

    /// Undoes the pauses after the first `kept` ones. The tables have their former indexes again,
    /// and other sessions may write to them now.
    pub(crate) fn undo_pauses(&mut self, kept: usize) {
        self.freeing.drain(kept..).for_each(FreeingPaused::undone);
    }

    /// Remembers the ON COMMIT action of a new temporary table.
    pub(crate) fn note_on_commit(&mut self, oid: Oid, action: OnCommit) {
        self.on_commit.push((oid, action));
    }

    /// Returns whether some temporary table has an ON COMMIT action.
    pub(crate) fn has_on_commit(&self) -> bool {
        !self.on_commit.is_empty()
    }

    /// Returns the tables with this ON COMMIT action.
    pub(crate) fn tables_on_commit(&self, wanted: OnCommit) -> Vec<Oid> {
        let asked = self.on_commit.iter().filter(|(_, action)| *action == wanted);
        asked.map(|(oid, _)| *oid).collect()
    }

    /// Forgets the ON COMMIT actions of tables that are gone.
    pub(crate) fn keep_on_commit(&mut self, exists: impl Fn(Oid) -> bool) {
        self.on_commit.retain(|(oid, _)| exists(*oid));
    }
}
