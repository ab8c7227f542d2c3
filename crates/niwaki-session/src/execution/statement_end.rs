//! The end of statements: pending checks, foreign key actions and triggers.
//!
//! Possibly duplicate keys are checked, foreign keys act, and AFTER triggers are fired. Changes
//! that these make are noted behind the earlier ones. Deferred constraints wait for the end of the
//! transaction.
//!
//! A statement of a function ends inside the statement that calls the function, and does its own
//! pending work. So all of this runs in the context of a statement. Plans and locks use the parts
//! that the session lends.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, of_table_number};
use niwaki_env::stack;
use niwaki_sql::store::Sees;
use niwaki_sql::{ExecContext, Result, StatementEnd};
use niwaki_table::DeferredKey;

use crate::execution::at_end::AtEnd;
use crate::execution::foreign_keys::Following;
use crate::session::errors::of_table;
use crate::session::noted::Event;

impl AtEnd<'_> {
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

    fn see_to(
        &self,
        event: Event,
        state: &Arc<CatalogState>,
        exec: &mut ExecContext<'_>,
    ) -> Result<()> {
        // Changes to other rows have an end of their own, which recurses.
        stack::deeper(|| self.see_to_here(event, state, exec))
    }

    fn see_to_here(
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
            Event::Key(noted) if self.deferred.borrow().waits(state, &noted) => {
                self.deferred.borrow_mut().keep_reference(noted);
                Ok(())
            }
            Event::Key(noted) | Event::DueKey(noted) => {
                exec.environment.check_interrupts()?;
                Following { end: self, exec }.see_to(&noted)
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

impl StatementEnd for AtEnd<'_> {
    fn noted(&self) -> usize {
        self.noted.borrow().len()
    }

    fn end(&self, since: usize, exec: &mut ExecContext<'_>) -> Result<()> {
        if self.noted.borrow().len() <= since {
            return Ok(());
        }
        self.transaction.next_command()?;
        // Ends: what follows from a change leads from one table to the next, and a row is deleted
        // or given a key once. A circle of ON UPDATE CASCADE that never rests is interrupted as in
        // any statement.
        loop {
            let events = self.noted.borrow_mut().take_since(since);
            if events.is_empty() {
                return Ok(());
            }
            let state = self.state();
            for event in events {
                self.see_to(event, &state, exec)?;
            }
        }
    }
}
