//! Early evaluation, before execution: computes constants, and estimates values for the planner,
//! such as `now() - interval '1 hour'`.
//!
//! This work is optional. An expression that is not computed here is computed for the rows, where
//! it can be cancelled. So a statement has one account for all such work. Once the account is used
//! up, nothing more is computed ahead.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_expr::expr::{Expr, Runtime, State};
use niwaki_expr::sessionless;
use niwaki_types::Datum;
use niwaki_types::work::{self, Asker};

niwaki_env::thread_local! {
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

struct Account {
    asker: Asker,
    /// True once the account is used up.
    spent: bool,
}

/// The account of a statement. Dropping it restores the previous account.
#[must_use = "the account is closed with it"]
pub struct StatementAccount(Option<Account>);

impl Drop for StatementAccount {
    fn drop(&mut self) {
        let before = self.0.take();
        ACCOUNT.with(|account| account.replace(before));
    }
}

/// Opens an account for the statement that this thread analyzes. Dropping the result closes it.
pub fn open_account() -> StatementAccount {
    let new = Account { asker: work::ahead(), spent: false };
    StatementAccount(ACCOUNT.with(|account| account.replace(Some(new))))
}

/// Returns the value of an expression that reads no row, at the time `now` (microseconds since
/// 2000). Returns `None` if the evaluation fails, or the account is used up.
pub fn value(expr: &Expr, now: i64) -> Option<Datum> {
    let asker = ACCOUNT.with(|account| match &*account.borrow() {
        None => Some(work::ahead()),
        Some(account) => (!account.spent).then(|| Arc::clone(&account.asker)),
    })?;
    // This failure does not fail the statement, so no interrupt is consumed.
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
