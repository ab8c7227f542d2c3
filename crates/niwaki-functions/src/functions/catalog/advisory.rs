//! Advisory locks, and messages between sessions.

use niwaki_expr::context::{AdvisoryLock, AdvisoryNumber, ExecContext};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::functions::{Function, functions};

fn lock_of(values: &[Datum], shared: bool, transaction: bool) -> Result<AdvisoryLock> {
    let number = match values {
        [Datum::Int8(number)] => AdvisoryNumber::One(*number),
        [Datum::Int4(first), Datum::Int4(second)] => AdvisoryNumber::Two(*first, *second),
        _ => return Err(SqlError::internal("an advisory lock on something else than numbers")),
    };
    Ok(AdvisoryLock { number, shared, transaction })
}

/// Returns an empty string, which void functions show.
fn nothing() -> Datum {
    Datum::text("")
}

fn take(
    exec: &mut ExecContext<'_>,
    values: &[Datum],
    shared: bool,
    transaction: bool,
) -> Result<Datum> {
    exec.environment.advisory_lock(lock_of(values, shared, transaction)?, true)?;
    Ok(nothing())
}

fn attempt(
    exec: &mut ExecContext<'_>,
    values: &[Datum],
    shared: bool,
    transaction: bool,
) -> Result<Datum> {
    let lock = lock_of(values, shared, transaction)?;
    exec.environment.advisory_lock(lock, false).map(Datum::Bool)
}

fn lock(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    take(exec, values, false, false)
}

fn lock_shared(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    take(exec, values, true, false)
}

fn lock_transaction(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    take(exec, values, false, true)
}

fn lock_transaction_shared(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    take(exec, values, true, true)
}

fn try_lock(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    attempt(exec, values, false, false)
}

fn try_lock_shared(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    attempt(exec, values, true, false)
}

fn try_lock_transaction(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    attempt(exec, values, false, true)
}

fn try_lock_transaction_shared(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    attempt(exec, values, true, true)
}

fn unlock(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    exec.environment.advisory_unlock(lock_of(values, false, false)?).map(Datum::Bool)
}

fn unlock_shared(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    exec.environment.advisory_unlock(lock_of(values, true, false)?).map(Datum::Bool)
}

fn unlock_all(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    exec.environment.advisory_unlock_all()?;
    Ok(nothing())
}

fn notify(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let text = |value: Option<&Datum>| match value {
        Some(Datum::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    exec.environment.notify(&text(values.first()), &text(values.get(1)))?;
    Ok(nothing())
}

fn listening_channels(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Vec<Datum>> {
    let channels = exec.environment.listening_channels();
    Ok(channels.into_iter().map(|channel| Datum::Text(channel.into())).collect())
}

fn queue_usage(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Float8(exec.environment.notification_queue_usage()))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_advisory_lock" (INT8) VOID strict single volatile Context(lock);
    "pg_advisory_lock" (INT4, INT4) VOID strict single volatile Context(lock);
    "pg_advisory_lock_shared" (INT8) VOID strict single volatile Context(lock_shared);
    "pg_advisory_lock_shared" (INT4, INT4) VOID strict single volatile Context(lock_shared);
    "pg_advisory_xact_lock" (INT8) VOID strict single volatile Context(lock_transaction);
    "pg_advisory_xact_lock" (INT4, INT4) VOID strict single volatile Context(lock_transaction);
    "pg_advisory_xact_lock_shared" (INT8) VOID strict single volatile Context(lock_transaction_shared);
    "pg_advisory_xact_lock_shared" (INT4, INT4) VOID strict single volatile Context(lock_transaction_shared);
    "pg_try_advisory_lock" (INT8) BOOL strict single volatile Context(try_lock);
    "pg_try_advisory_lock" (INT4, INT4) BOOL strict single volatile Context(try_lock);
    "pg_try_advisory_lock_shared" (INT8) BOOL strict single volatile Context(try_lock_shared);
    "pg_try_advisory_lock_shared" (INT4, INT4) BOOL strict single volatile Context(try_lock_shared);
    "pg_try_advisory_xact_lock" (INT8) BOOL strict single volatile Context(try_lock_transaction);
    "pg_try_advisory_xact_lock" (INT4, INT4) BOOL strict single volatile Context(try_lock_transaction);
    "pg_try_advisory_xact_lock_shared" (INT8) BOOL strict single volatile Context(try_lock_transaction_shared);
    "pg_try_advisory_xact_lock_shared" (INT4, INT4) BOOL strict single volatile Context(try_lock_transaction_shared);
    "pg_advisory_unlock" (INT8) BOOL strict single volatile Context(unlock);
    "pg_advisory_unlock" (INT4, INT4) BOOL strict single volatile Context(unlock);
    "pg_advisory_unlock_shared" (INT8) BOOL strict single volatile Context(unlock_shared);
    "pg_advisory_unlock_shared" (INT4, INT4) BOOL strict single volatile Context(unlock_shared);
    "pg_advisory_unlock_all" () VOID strict single volatile Context(unlock_all);
    "pg_notify" (TEXT, TEXT) VOID nullable single volatile Context(notify);
    "pg_listening_channels" () TEXT strict single stable Set(listening_channels);
    "pg_notification_queue_usage" () FLOAT8 strict single volatile Context(queue_usage);
};
