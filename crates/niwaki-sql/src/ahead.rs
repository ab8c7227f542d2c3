//! Work that is done ahead of a statement's rows: constants are computed, and a plan guesses what
//! `now() - interval '1 hour'` will be.
//!
//! None of it is needed: what is not computed here is computed where the rows are, where it can be
//! cancelled. So all of a statement has one account, and ends ahead when that is used up.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_types::Datum;
use niwaki_types::work::{self, Asker};

use crate::expr::{Expr, Runtime, State};
use crate::sessionless;

niwaki_env::thread_local! {
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

struct Account {
    asker: Asker,
    /// Nothing more is computed.
    spent: bool,
}

/// The account of a statement; the one before it is in use again when this goes.
#[must_use = "the account is closed with it"]
pub(crate) struct OfStatement(Option<Account>);

impl Drop for OfStatement {
    fn drop(&mut self) {
        let before = self.0.take();
        ACCOUNT.with(|account| account.replace(before));
    }
}

/// Opens an account for the statement that this thread analyzes, until the result goes.
pub(crate) fn of_statement() -> OfStatement {
    let new = Account { asker: work::ahead(), spent: false };
    OfStatement(ACCOUNT.with(|account| account.replace(Some(new))))
}

/// The value of an expression that reads no row, at the moment `now`, in microseconds since 2000.
/// `None` where that fails, or the account is used up.
pub(crate) fn value(expr: &Expr, now: i64) -> Option<Datum> {
    let asker = ACCOUNT.with(|account| match &*account.borrow() {
        None => Some(work::ahead()),
        Some(account) => (!account.spent).then(|| Arc::clone(&account.asker)),
    })?;
    // Its failure is no failure of the statement, so no interrupt is used up.
    let _asking = work::asking(Some(asker));
    let value = sessionless::with_times(now, |exec| {
        let mut state = State::default();
        expr.eval(&[], &mut Runtime { exec, params: &[], state: &mut state })
    });
    if value.as_ref().is_err_and(|error| matches!(error.sqlstate, "57014" | "53200")) {
        ACCOUNT.with(|account| {
            if let Some(account) = &mut *account.borrow_mut() {
                account.spent = true;
            }
        });
    }
    value.ok()
}
