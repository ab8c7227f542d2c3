//! The end of statements: pending checks, foreign key actions and triggers.
//!
//! Possibly duplicate keys are checked, foreign keys act, and AFTER triggers are fired. Changes
//! that these make are queued behind the earlier ones. Deferred constraints wait for the end of the
//! transaction.
//!
//! A statement of a function ends inside the statement that calls the function, and does its own
//! pending work. So all of this runs in the context of a statement. Plans and locks use the parts
//! that the session lends.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, of_table_number};
use niwaki_env::stack;
use niwaki_sql::store::Sees;
use niwaki_sql::{AfterTriggers, ExecContext, Result};
use niwaki_table::DeferredKey;

use crate::execution::after_trigger_context::AfterTriggerContext;
use crate::execution::foreign_keys::Following;
use crate::session::after_trigger_queue::Event;
use crate::session::errors::of_table;

impl AfterTriggerContext<'_> {
    fn check_key(&self, state: &CatalogState, key: &DeferredKey) -> Result<()> {
        let relation = state.relation(of_table_number(key.table).1);
        let Some((relation, table)) = relation.and_then(|r| Some((r, r.table.as_ref()?))) else {
            return Ok(());
        };
        let checked = table.check_deferred(self.transaction, key);
        checked.map_err(|error| of_table(error, relation, state))
    }

    /// Decides whether a possibly duplicate key is checked later.
    fn is_deferred(&self, state: &CatalogState, key: &DeferredKey) -> bool {
        let index = state.relation(of_table_number(key.index).1);
        index.is_some_and(|index| self.deferred.borrow().is_deferred(index))
    }

    fn process(
        &self,
        event: Event,
        state: &Arc<CatalogState>,
        exec: &mut ExecContext<'_>,
    ) -> Result<()> {
        // Changes to other rows have an end of their own, which recurses.
        stack::deeper(|| self.process_here(event, state, exec))
    }

    fn process_here(
        &self,
        event: Event,
        state: &Arc<CatalogState>,
        exec: &mut ExecContext<'_>,
    ) -> Result<()> {
        match event {
            Event::Doubtful(key) if self.is_deferred(state, &key) => {
                self.deferred.borrow_mut().keep_key(key);
                Ok(())
            }
            Event::Doubtful(key) | Event::DueDoubtful(key) => self.check_key(state, &key),
            Event::Key(change) if self.deferred.borrow().waits(state, &change) => {
                self.deferred.borrow_mut().keep_reference(change);
                Ok(())
            }
            Event::Key(change) | Event::DueKey(change) => {
                exec.environment.check_interrupts()?;
                Following { end: self, exec }.process(&change)
            }
            Event::Trigger(trigger) => {
                exec.environment.check_interrupts()?;
                exec.store.begin_following(Sees::OwnToWrite, state)?;
                let fired = trigger.fire(exec);
                exec.store.end_nested();
                fired
            }
        }
    }
}

impl AfterTriggers for AfterTriggerContext<'_> {
    fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    fn end(&self, since: usize, exec: &mut ExecContext<'_>) -> Result<()> {
        if self.queue.borrow().len() <= since {
            return Ok(());
        }
        self.transaction.next_command()?;
        // Ends: what follows from a change leads from one table to the next, and a row is deleted
        // or given a key once. A circle of ON UPDATE CASCADE that never rests is interrupted as in
        // any statement.
        loop {
            let events = self.queue.borrow_mut().take_since(since);
            if events.is_empty() {
                return Ok(());
            }
            let state = self.state();
            for event in events {
                self.process(event, &state, exec)?;
            }
        }
    }
}
