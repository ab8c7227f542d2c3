//! Utility statements: those about the session itself, and the dispatch of all others.

use std::sync::Arc;

use niwaki_catalog::{Relation, RelationKind};
use niwaki_env::stack;
use niwaki_sql::utility::{CopySource, Name, SetCommand, TransactionModes, Utility};
use niwaki_sql::{ColumnInfo, ExplainOptions, Result, SqlError};
use niwaki_txn::{TableLockMode, WaitPolicy};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::NodeEnum;

use crate::execution::environment::of_transaction;
use crate::execution::store::read_only;
use crate::result::ResultSink;
use crate::session::handle::Session;
use crate::session::state::block::Block;

fn text_column(name: &str) -> ColumnInfo {
    ColumnInfo::computed(name, ColumnType::new(TypeOid::TEXT))
}

impl Session {
    /// Returns the columns of a utility statement's result. `None` when it returns no rows.
    pub(crate) fn utility_columns(
        &mut self,
        utility: &Utility,
    ) -> Result<Option<Arc<[ColumnInfo]>>> {
        Ok(match utility {
            Utility::Show(name) if name == "all" => Some(Arc::from([
                text_column("name"),
                text_column("setting"),
                text_column("description"),
            ])),
            Utility::Show(name) => {
                // An unknown name is refused before a row description is sent.
                self.settings.show(name)?;
                Some(Arc::from([text_column(&self.settings.canonical_name(name))]))
            }
            Utility::Fetch(fetch) if !fetch.is_move => self.cursor_columns(&fetch.name),
            Utility::ExplainExecute { explain, .. } => {
                let NodeEnum::ExplainStmt(explain) = &**explain else {
                    return Err(SqlError::internal("EXPLAIN EXECUTE without an EXPLAIN"));
                };
                Some(Arc::from([ExplainOptions::parse(&explain.options)?.column()]))
            }
            Utility::Execute { name, .. } => {
                let named = self.statements.get(name);
                named.and_then(|named| named.statement.described.columns.clone())
            }
            _ => None,
        })
    }

    /// Runs a utility statement and leaves its tag in `command`. `parameters` are types and values
    /// of the parameters in the query of a DECLARE. `several` is set for one of several statements
    /// in a query string.
    pub(crate) fn run_utility(
        &mut self,
        utility: &Utility,
        parameters: &[(TypeOid, Datum)],
        source: &str,
        several: bool,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        if self.block.state() == Block::Failed && !utility.ends_failed_transaction() {
            self.refuse_in_failed_block()?;
        }
        if let Utility::Transaction(command) = utility {
            // The transaction that a query string or pipeline began becomes the block's
            // transaction.
            let tag = self.transaction_command(command, out)?;
            self.command.set_tag(tag);
            return Ok(());
        }
        if !utility.gives_memory_back() {
            niwaki_env::memory::check()?;
        }
        // PostgreSQL, too, refuses writing first, and only then statements that cannot be in a
        // block.
        self.refuse_writing(utility)?;
        self.refuse_in_transaction(utility, several)?;
        if let Some(tag) = self.run_in_steps(utility, out)? {
            self.command.set_tag(tag);
            return Ok(());
        }
        self.ensure_transaction()?;
        self.refuse_writing(utility)?;
        self.block.note_query(utility.takes_snapshot());
        // A failure restores the read-only mode with the transaction, or with the savepoint.
        let lifted = utility.maintains() && self.open_transaction()?.read_only();
        if lifted {
            self.open_transaction()?.set_read_only(false);
        }
        let Some(tag) = self.run_in_transaction(utility, parameters, source, several, out)? else {
            return Ok(());
        };
        if lifted {
            self.open_transaction()?.set_read_only(true);
        }
        self.command.set_tag(tag);
        self.next_command()?;
        if utility.refuses_transaction_block().is_some() {
            // A later failure in the pipeline cannot undo the statement then.
            self.end_implicit()?;
        }
        Ok(())
    }

    /// Runs a statement within the open transaction and returns its tag. Returns `None` for a
    /// statement that has set the tag itself, and needs nothing more.
    #[expect(clippy::too_many_lines, reason = "one flat match over the kinds of statements")]
    fn run_in_transaction(
        &mut self,
        utility: &Utility,
        parameters: &[(TypeOid, Datum)],
        source: &str,
        several: bool,
        out: &mut dyn ResultSink,
    ) -> Result<Option<&'static str>> {
        let in_block = several || self.block.state() == Block::Explicit;
        let tag: &'static str = match utility {
            Utility::Transaction(_) => "",
            Utility::Set(command) => self.set(command, in_block, out)?,
            Utility::SetConstraints { names, deferred } => {
                self.set_constraints(names, *deferred, in_block, out)?
            }
            Utility::Show(name) => self.show(name, out)?,
            Utility::Vacuum(vacuum) => {
                self.analyze_tables(vacuum, out)?;
                "ANALYZE"
            }
            Utility::Checkpoint => {
                self.directory.checkpoint()?;
                "CHECKPOINT"
            }
            Utility::Copy(copy) => {
                let rows = self.copy(copy, source, out)?;
                *self.command.tag_mut() = format!("COPY {rows}");
                self.next_command()?;
                self.check_after_statement()?;
                return Ok(None);
            }
            Utility::CreateTableAs(spec) => {
                match self.definitions.create_table_as(self, spec, source, parameters, out)? {
                    Some(rows) => {
                        *self.command.tag_mut() = format!("SELECT {rows}");
                        return Ok(None);
                    }
                    None => spec.word(),
                }
            }
            Utility::Prepare { name, types, query } => {
                self.prepare_by_name(name, types, query, source)?;
                "PREPARE"
            }
            Utility::Execute { name, parameters } => {
                self.execute_by_name(name, parameters, out)?;
                return Ok(None);
            }
            Utility::ExplainExecute { name, parameters, explain } => {
                self.explain_by_name(name, parameters, explain, out)?;
                return Ok(None);
            }
            Utility::Deallocate(name) => self.deallocate(name.as_deref())?,
            Utility::Discard(tag) => {
                self.discard(tag)?;
                tag
            }
            Utility::Lock { names, mode, nowait } => {
                if !in_block {
                    let message = "LOCK TABLE can only be used in transaction blocks";
                    return Err(SqlError::new("25P01", message));
                }
                self.lock_tables(names, *mode, *nowait)?;
                "LOCK TABLE"
            }
            Utility::DeclareCursor(declared) => {
                self.declare_cursor(declared, parameters, source, several)?;
                "DECLARE CURSOR"
            }
            Utility::Fetch(fetch) => {
                let rows = self.fetch_cursor(fetch, out)?;
                let word = if fetch.is_move { "MOVE" } else { "FETCH" };
                *self.command.tag_mut() = format!("{word} {rows}");
                return Ok(None);
            }
            Utility::CloseCursor(name) => self.close_cursor(name.as_deref())?,
            Utility::Listen(channel) => {
                self.listen(channel);
                "LISTEN"
            }
            Utility::Unlisten(channel) => {
                self.unlisten(channel.as_deref());
                "UNLISTEN"
            }
            Utility::Notify { channel, payload } => {
                self.notify(channel, payload)?;
                "NOTIFY"
            }
            Utility::Database(statement) => {
                self.alter_database(statement)?;
                statement.tag()
            }
            Utility::Nothing { tag, notices } => {
                for (sqlstate, message) in notices {
                    self.notice(out, sqlstate, message);
                }
                tag
            }
            Utility::CreateSchema { .. }
            | Utility::CreateTable(_)
            | Utility::CreateView(_)
            | Utility::CreateIndex(_)
            | Utility::CreateSequence { .. }
            | Utility::AlterSequence { .. }
            | Utility::Type(_)
            | Utility::Function(_)
            | Utility::Trigger(_)
            | Utility::Drop(_)
            | Utility::Alter { .. }
            | Utility::Rename(_)
            | Utility::Reindex(_)
            | Utility::RenameSchema { .. }
            | Utility::SchemaOwner { .. }
            | Utility::SetSchema { .. }
            | Utility::Comment { .. }
            | Utility::Refresh { .. }
            | Utility::Truncate { .. } => self.definitions.run(self, utility, source, out)?,
        };
        Ok(Some(tag))
    }

    /// Runs a DISCARD, given by its tag.
    fn discard(&mut self, tag: &str) -> Result<()> {
        match tag {
            "DISCARD ALL" => {
                self.forget_everything();
                self.discard_temporary()?;
            }
            "DISCARD SEQUENCES" => self.sequences.clear(),
            "DISCARD TEMP" => self.discard_temporary()?,
            // Plans need no action, because they are made again when necessary.
            _ => {}
        }
        Ok(())
    }

    /// Fails with 25001 for a statement that commits on its own, if it would also commit earlier
    /// work of the same transaction.
    fn refuse_in_transaction(&self, utility: &Utility, several: bool) -> Result<()> {
        let Some(word) = utility.refuses_transaction_block() else { return Ok(()) };
        let message = if self.block.state() == Block::Explicit || several {
            format!("{word} cannot run inside a transaction block")
        } else if self.block.state() == Block::Implicit && self.block.ran().message {
            format!("{word} cannot be executed within a pipeline")
        } else {
            return Ok(());
        };
        Err(SqlError::new("25001", message))
    }

    /// Runs a statement that has transactions of its own. Returns `None` for every other statement.
    fn run_in_steps(
        &mut self,
        utility: &Utility,
        out: &mut dyn ResultSink,
    ) -> Result<Option<&'static str>> {
        let tag = match utility {
            Utility::Vacuum(vacuum) if vacuum.vacuum => {
                self.end_implicit()?;
                self.vacuum(vacuum, out)?;
                "VACUUM"
            }
            Utility::CreateIndex(_) | Utility::Drop(_) | Utility::Reindex(_)
                if utility.refuses_transaction_block().is_some() =>
            {
                self.end_implicit()?;
                self.definitions.run_in_steps(self, utility, out)?
            }
            Utility::Database(statement) if utility.refuses_transaction_block().is_some() => {
                self.end_implicit()?;
                self.change_databases(statement, out)?;
                return Ok(Some(statement.tag()));
            }
            _ => return Ok(None),
        };
        // As in PostgreSQL, the portal belongs to the transaction of the next statement in the
        // pipeline.
        self.ensure_transaction()?;
        Ok(Some(tag))
    }

    /// Fails with 25006 for a statement that writes in a READ ONLY transaction.
    fn refuse_writing(&mut self, utility: &Utility) -> Result<()> {
        let refuses = match &self.transaction {
            Some(transaction) => {
                transaction.set_writes_temporary(false);
                transaction.read_only()
            }
            // The statement's own transactions begin in this mode. Other statements come here again
            // with a transaction.
            None => {
                utility.refuses_transaction_block().is_some()
                    && self.settings.hot().default_read_only
            }
        };
        if !refuses {
            return Ok(());
        }
        let Some(word) = utility.refuses_read_only() else { return Ok(()) };
        if let Utility::Copy(copy) = utility
            && let CopySource::Table { name, .. } = &copy.source
        {
            let schema = self.find_relation(name)?.schema;
            if Some(schema) == self.catalog.state().temporary_schema() {
                self.open_transaction()?.set_writes_temporary(true);
                return Ok(());
            }
        }
        Err(read_only(word))
    }

    fn set(
        &mut self,
        command: &SetCommand,
        in_block: bool,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        match command {
            SetCommand::Value { name, value, local } => {
                if *local && !in_block {
                    self.warning(out, "25P01", "SET LOCAL can only be used in transaction blocks");
                }
                if let Some(modes) = transaction_mode(name, value)? {
                    self.set_modes(modes)?;
                } else {
                    self.settings.set(name, value, *local)?;
                }
            }
            SetCommand::Default { name, local, .. } => self.settings.reset(name, *local)?,
            SetCommand::ResetAll => self.settings.reset_all(),
            SetCommand::Transaction { modes, session: false } => {
                if !in_block {
                    self.warning(
                        out,
                        "25P01",
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                self.set_modes(*modes)?;
            }
            SetCommand::Transaction { modes, session: true } => {
                if let Some(repeatable) = modes.repeatable_read {
                    let level = if repeatable { "repeatable read" } else { "read committed" };
                    self.settings.set("default_transaction_isolation", level, false)?;
                }
                let switches = [
                    ("default_transaction_read_only", modes.read_only),
                    ("default_transaction_deferrable", modes.deferrable),
                ];
                for (name, switch) in switches {
                    if let Some(on) = switch {
                        self.settings.set(name, if on { "on" } else { "off" }, false)?;
                    }
                }
            }
        }
        self.settings_changed();
        Ok(match command {
            SetCommand::Default { reset: true, .. } | SetCommand::ResetAll => "RESET",
            _ => "SET",
        })
    }

    fn show(&mut self, name: &str, out: &mut dyn ResultSink) -> Result<&'static str> {
        let text = |t: String| Datum::Text(Arc::from(t));
        if name == "all" {
            for (_, row) in self.settings.rows() {
                out.row(&[
                    text(row.name.to_owned()),
                    text(row.shown),
                    text(row.description.to_owned()),
                ])?;
            }
            return Ok("SHOW");
        }
        let transaction = self.open_transaction()?;
        let value = match of_transaction(name, transaction) {
            Some(word) => word.to_owned(),
            None => self.settings.show(name)?,
        };
        out.row(&[text(value)])?;
        Ok("SHOW")
    }

    fn lock_tables(&mut self, names: &[Name], mode: TableLockMode, nowait: bool) -> Result<()> {
        let policy = if nowait { WaitPolicy::NoWait } else { WaitPolicy::Block };
        for name in names {
            let locked = self.lock_by_name_unless(name, mode, policy, refuse_to_lock)?;
            self.lock_sources(&locked, mode, policy)?;
            if !name.only {
                self.lock_partitions(&locked, mode, policy)?;
            }
        }
        Ok(())
    }

    /// Locks the partitions of a table, at any depth.
    fn lock_partitions(
        &mut self,
        table: &Relation,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> Result<()> {
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.lock_relation(&member.relation, mode, policy)?;
            // Others may have attached a partition to it before.
            let Some(now) = self.catalog.state().relation(member.relation.oid).cloned() else {
                continue;
            };
            self.lock_partitions(&now, mode, policy)?;
        }
        Ok(())
    }

    /// Locks the tables and views that a view reads, at any depth.
    fn lock_sources(
        &mut self,
        view: &Relation,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> Result<()> {
        for source in view.query.iter().flat_map(|query| &query.sources) {
            let state = self.catalog.state();
            let Some(relation) = state.relation(source.relation) else { continue };
            // A materialized view does not read anything when it is read.
            if refuse_to_lock(relation).is_err() {
                continue;
            }
            self.lock_relation(relation, mode, policy)?;
            // Others may have given a view another query before.
            let Some(now) = self.catalog.state().relation(source.relation).cloned() else {
                continue;
            };
            stack::deeper(|| self.lock_sources(&now, mode, policy))?;
            self.lock_partitions(&now, mode, policy)?;
        }
        Ok(())
    }
}

/// 42809 for what LOCK TABLE does not lock.
fn refuse_to_lock(relation: &Relation) -> Result<()> {
    if relation.kind == RelationKind::MaterializedView {
        let message = format!("cannot lock relation \"{}\"", relation.name);
        return Err(SqlError::new("42809", message)
            .with_detail("This operation is not supported for materialized views."));
    }
    if relation.table.is_none() && relation.query.is_none() && !relation.is_partitioned() {
        let message = format!("\"{}\" is not a table or view", relation.name);
        return Err(SqlError::new("42809", message));
    }
    Ok(())
}

/// Reads `SET transaction_isolation` and similar settings, which set modes of the running
/// transaction.
fn transaction_mode(name: &str, value: &str) -> Result<Option<TransactionModes>> {
    let mut modes = TransactionModes::default();
    match name.to_ascii_lowercase().as_str() {
        "transaction_isolation" => {
            modes.repeatable_read = Some(match value.to_ascii_lowercase().as_str() {
                "read committed" | "read uncommitted" => false,
                "repeatable read" => true,
                "serializable" => {
                    return Err(SqlError::unsupported("isolation level SERIALIZABLE"));
                }
                _ => {
                    return Err(SqlError::new(
                        "22023",
                        format!(
                            "invalid value for parameter \"transaction_isolation\": \"{value}\""
                        ),
                    ));
                }
            });
        }
        "transaction_read_only" => modes.read_only = Some(switch(name, value)?),
        "transaction_deferrable" => modes.deferrable = Some(switch(name, value)?),
        _ => return Ok(None),
    }
    Ok(Some(modes))
}

fn switch(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => {
            let message = format!("parameter \"{name}\" requires a Boolean value");
            Err(SqlError::new("22023", message))
        }
    }
}
