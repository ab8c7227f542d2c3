//! Transaction blocks.
//!
//! ```text
//!            statement                     BEGIN
//!   Idle ───────────────► Implicit ──────────────────► Explicit ◄─────────┐
//!    ▲  ◄── Sync, end of query ─┘                        │   │ error      │ ROLLBACK TO
//!    └──────────── COMMIT, ROLLBACK ─────────────────────┘   ▼            │
//!    └──────────── COMMIT (rolls back), ROLLBACK ───────── Failed ────────┘
//! ```

use niwaki_catalog::CatalogChanges;
use niwaki_sql::utility::{TransactionCommand, TransactionModes};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::{BeginOptions, Durability, Isolation};

use crate::result::ResultSink;
use crate::session::handle::Session;
use crate::session::state::block::{Block, Level};

/// Setting that shows whether the running transaction is DEFERRABLE. BEGIN sets it as SET LOCAL
/// would.
const DEFERRABLE: &str = "transaction_deferrable";

impl Session {
    /// Opens an implicit transaction unless one is open.
    ///
    /// # Errors
    /// 57P01 and 57P03 when no transaction may begin any more.
    pub fn ensure_transaction(&mut self) -> Result<()> {
        if self.block.state() == Block::Idle {
            self.begin(TransactionModes::default())?;
            self.block.set(Block::Implicit);
        }
        Ok(())
    }

    fn begin(&mut self, modes: TransactionModes) -> Result<()> {
        let hot = self.settings.hot();
        self.block.set_began(TransactionModes {
            repeatable_read: Some(hot.default_repeatable_read),
            read_only: Some(hot.default_read_only),
            deferrable: Some(hot.default_deferrable),
        });
        let repeatable = modes.repeatable_read.unwrap_or(hot.default_repeatable_read);
        let read_only = modes.read_only.unwrap_or(hot.default_read_only);
        let options = BeginOptions {
            isolation: if repeatable {
                Isolation::RepeatableRead
            } else {
                Isolation::ReadCommitted
            },
            read_only,
            started_us: Some(self.command.started_us()).filter(|us| *us != 0),
        };
        self.transaction =
            Some(self.directory.transactions().begin(self.identity.control(), options)?);
        self.block.nothing_ran();
        if modes.deferrable.unwrap_or(hot.default_deferrable) {
            self.settings.set(DEFERRABLE, "on", true)?;
        }
        Ok(())
    }

    /// Returns the modes with which BEGIN would start a transaction like the open one.
    fn modes(&self) -> Option<TransactionModes> {
        let transaction = self.transaction.as_ref()?;
        Some(TransactionModes {
            repeatable_read: Some(transaction.isolation() == Isolation::RepeatableRead),
            read_only: Some(transaction.read_only()),
            deferrable: Some(self.settings.bool(DEFERRABLE)),
        })
    }

    /// Refuses everything while the transaction block is failed.
    ///
    /// # Errors
    /// 25P02.
    #[inline]
    pub fn refuse_in_failed_block(&self) -> Result<()> {
        if self.block.state() == Block::Failed {
            return Err(SqlError::new(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Commits an implicit transaction. Does nothing in a block.
    ///
    /// # Errors
    /// A check that fails, an error of a held cursor, write errors. The transaction is then rolled
    /// back.
    #[inline]
    pub fn end_implicit(&mut self) -> Result<()> {
        match self.block.state() {
            Block::Implicit => self.commit()?,
            // Bind begins no transaction, but the portals that it made end here all the same.
            Block::Idle => self.close_portals(),
            Block::Explicit | Block::Failed => {}
        }
        Ok(())
    }

    /// Rolls back an implicit transaction. Does nothing in a block.
    pub fn undo_implicit(&mut self) {
        if self.block.state() == Block::Implicit {
            self.rollback();
        }
    }

    /// Commits the open transaction, if there is one. The block may have failed.
    ///
    /// # Errors
    /// A check that fails, an error of a held cursor, write errors. The transaction is then rolled
    /// back.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if self.transaction.is_some()
            && let Err(error) = self.prepare_commit()
        {
            self.rollback();
            return Err(error);
        }
        self.close_portals();
        let Some(transaction) = self.transaction.take() else {
            self.block.set(Block::Idle);
            return Ok(());
        };
        self.forget_checks();
        self.block.set(Block::Idle);
        self.block.forget();
        let durability = if self.settings.hot().synchronous_commit {
            Durability::Flush
        } else {
            Durability::Async
        };
        let (changes, pending) = (self.catalog.take_for_commit(), self.messages.take());
        let result = if changes.is_none() && pending.is_none() {
            transaction.commit(durability)
        } else {
            // Other sessions see the definitions before they get the locks for which they waited.
            transaction.commit_then(durability, || {
                changes.into_iter().for_each(CatalogChanges::publish);
                pending
                    .unwrap_or_default()
                    .committed(self.identity.control(), self.connection.notifications());
            })
        };
        self.block.free_again();
        self.count_end(result.is_ok());
        match result {
            Ok(_) => {
                self.catalog.committed();
                self.forget_on_commit();
                if self.settings.is_touched() {
                    self.settings.commit();
                    self.settings_changed();
                }
                Ok(())
            }
            Err(error) => {
                self.catalog.rolled_back();
                self.settings.rollback();
                self.settings_changed();
                Err(error.into())
            }
        }
    }

    /// Does the steps that may still fail, before the commit.
    ///
    /// # Errors
    /// A check that fails, an error of a held cursor, no room for messages.
    fn prepare_commit(&mut self) -> Result<()> {
        self.check_before_commit()?;
        self.hold_cursors()?;
        self.close_portals();
        self.act_on_commit()?;
        if self.messages.pending().is_empty() {
            return Ok(());
        }
        self.messages
            .pending()
            .before_commit(self.open_transaction()?, self.connection.notifications())
    }

    /// Rolls back the open transaction, if there is one.
    pub(crate) fn rollback(&mut self) {
        self.abandon_transaction();
        self.block.set(Block::Idle);
    }

    /// Aborts the transaction and undoes its effects in this session's memory.
    pub(crate) fn abandon_transaction(&mut self) {
        self.close_portals();
        self.block.forget();
        self.forget_checks();
        self.messages.pending_mut().clear();
        self.command.warnings_mut().clear();
        self.catalog.rolled_back();
        if let Some(transaction) = self.transaction.take() {
            transaction.abort();
            self.count_end(false);
        }
        self.block.undo_pauses(0);
        if self.settings.is_touched() {
            self.settings.rollback();
            self.settings_changed();
        }
    }

    /// Counts a transaction that has ended, and the deadlocks that it ran into.
    fn count_end(&self, committed: bool) {
        let deadlocks = self.identity.control().take_deadlocks();
        self.connection.statistics().transaction_ended(self.id(), committed, deadlocks);
    }

    /// Forgets pending constraint checks, because the transaction ends.
    fn forget_checks(&mut self) {
        self.buffers.work_mut().take_deferred();
        self.checks.forget();
    }

    /// Records that a statement or message failed. An open transaction block is failed (25P02) from
    /// now on. An implicit transaction is rolled back.
    pub fn error(&mut self) {
        self.fail_block();
        self.end_statement();
    }

    fn fail_block(&mut self) {
        match self.block.state() {
            Block::Failed => {}
            Block::Idle => self.close_portals(),
            Block::Implicit => self.rollback(),
            Block::Explicit => {
                self.block.set(Block::Failed);
                if let Some(innermost) = self.block.depth().checked_sub(1) {
                    // Only work after the innermost savepoint is lost. The rest waits for ROLLBACK
                    // TO.
                    if self.undo_to(innermost).is_err() {
                        self.abandon_transaction();
                    }
                } else {
                    self.abandon_transaction();
                }
            }
        }
    }

    /// Runs BEGIN, COMMIT and the other transaction commands. Returns the command tag.
    pub(crate) fn transaction_command(
        &mut self,
        command: &TransactionCommand,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        match command {
            TransactionCommand::Begin { modes, start } => {
                self.begin_block(*modes, out)?;
                Ok(if *start { "START TRANSACTION" } else { "BEGIN" })
            }
            TransactionCommand::Commit { chain } => self.end_block(true, *chain, out),
            TransactionCommand::Rollback { chain } => self.end_block(false, *chain, out),
            TransactionCommand::Savepoint(name) => {
                self.require_block("SAVEPOINT")?;
                niwaki_env::memory::check()?;
                let catalog = self.catalog.mark();
                let (created, freeing) = self.block.marks();
                self.block.push(Level {
                    name: name.clone(),
                    catalog,
                    settings: self.settings.mark(),
                    created,
                    freeing,
                    pending: self.messages.pending().mark(),
                    read_only: self.open_transaction()?.read_only(),
                    deferred: self.checks.deferred().mark(),
                });
                self.open_transaction()?.savepoint(name);
                Ok("SAVEPOINT")
            }
            TransactionCommand::Release(name) => {
                self.require_block("RELEASE SAVEPOINT")?;
                let at = self.level(name)?;
                let read_only = self.block.release(at);
                // Portals made since the savepoint now belong to the level below.
                self.portals.lower_to(at);
                let transaction = self.open_transaction()?;
                transaction.release(name)?;
                transaction.set_read_only(read_only);
                Ok("RELEASE")
            }
            TransactionCommand::RollbackTo(name) => {
                self.require_block("ROLLBACK TO SAVEPOINT")?;
                let at = self.level(name)?;
                self.undo_to(at)?;
                self.block.set(Block::Explicit);
                Ok("ROLLBACK")
            }
        }
    }

    /// Runs BEGIN. Inside a block it warns, and its modes act like the modes of SET TRANSACTION.
    fn begin_block(&mut self, modes: TransactionModes, out: &mut dyn ResultSink) -> Result<()> {
        match self.block.state() {
            Block::Idle => self.begin(modes)?,
            // Statements that ran earlier in the same message or query belong to the block.
            Block::Implicit => self.set_modes(modes)?,
            Block::Explicit | Block::Failed => {
                self.warning(out, "25001", "there is already a transaction in progress");
                return self.set_modes(modes);
            }
        }
        self.block.set(Block::Explicit);
        Ok(())
    }

    fn end_block(
        &mut self,
        commit: bool,
        chain: bool,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        let in_block = matches!(self.block.state(), Block::Explicit | Block::Failed);
        if !in_block {
            if chain {
                let word = if commit { "COMMIT" } else { "ROLLBACK" };
                return Err(SqlError::new(
                    "25P01",
                    format!("{word} AND CHAIN can only be used in transaction blocks"),
                ));
            }
            self.warning(out, "25P01", "there is no transaction in progress");
        }
        let modes = self.modes().unwrap_or(self.block.began());
        let committed = commit && self.block.state() != Block::Failed;
        if committed {
            self.commit()?;
        } else {
            self.rollback();
        }
        if chain {
            self.begin(modes)?;
            self.block.set_began(modes);
            self.block.set(Block::Explicit);
        }
        Ok(if committed { "COMMIT" } else { "ROLLBACK" })
    }

    /// Runs SET TRANSACTION.
    pub(crate) fn set_modes(&mut self, modes: TransactionModes) -> Result<()> {
        let (nested, queried) = (self.block.depth() > 0, self.block.ran().query);
        let refused = |message: &str| Err(SqlError::new("25001", message));
        let transaction = self.open_transaction()?;
        if let Some(repeatable) = modes.repeatable_read {
            let isolation =
                if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            if queried && isolation != transaction.isolation() {
                return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
            }
            if nested && isolation != transaction.isolation() {
                return refused(
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                );
            }
            transaction.set_isolation(isolation)?;
        }
        if let Some(read_only) = modes.read_only {
            if nested && !read_only && transaction.read_only() {
                return refused(
                    "cannot set transaction read-write mode inside a read-only transaction",
                );
            }
            if queried && !read_only && transaction.read_only() {
                return refused("transaction read-write mode must be set before any query");
            }
            transaction.set_read_only(read_only);
        }
        if let Some(deferrable) = modes.deferrable {
            if nested {
                return refused(
                    "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
                );
            }
            if queried {
                return refused("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
            }
            self.settings.set(DEFERRABLE, if deferrable { "on" } else { "off" }, true)?;
        }
        Ok(())
    }

    fn require_block(&self, word: &str) -> Result<()> {
        if matches!(self.block.state(), Block::Explicit | Block::Failed) {
            return Ok(());
        }
        Err(SqlError::new("25P01", format!("{word} can only be used in transaction blocks")))
    }

    fn level(&self, name: &str) -> Result<usize> {
        self.block
            .position(name)
            .ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    /// Undoes everything since a savepoint. The savepoint itself stays.
    fn undo_to(&mut self, at: usize) -> Result<()> {
        let Some(level) = self.block.back_to(at) else {
            return Err(SqlError::internal("savepoint"));
        };
        self.catalog.rollback_to(level.catalog);
        self.settings.rollback_to(level.settings);
        self.messages.pending_mut().rollback_to(level.pending);
        self.checks.rollback_to(&level.deferred);
        self.buffers.work_mut().take_deferred();
        self.portals.close_above(at);
        let (name, read_only, freeing) = (level.name.clone(), level.read_only, level.freeing);
        self.settings_changed();
        let transaction = self.open_transaction()?;
        transaction.rollback_to(&name)?;
        transaction.set_read_only(read_only);
        self.block.undo_pauses(freeing);
        Ok(())
    }

    /// Ends the command, if its transaction is still open.
    ///
    /// # Errors
    /// 54000 when the transaction has too many commands.
    pub fn next_command(&mut self) -> Result<()> {
        if let Some(transaction) = &self.transaction {
            transaction.next_command()?;
        }
        Ok(())
    }

    /// Closes the portals that end with the transaction: all but held cursors.
    pub(crate) fn close_portals(&mut self) {
        self.portals.close_with_transaction();
    }
}
