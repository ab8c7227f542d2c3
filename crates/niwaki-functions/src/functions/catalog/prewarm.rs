//! Reads a relation into the buffer pool: `pg_prewarm`.

use niwaki_catalog::Oid;
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_types::Datum;

use crate::functions::catalog::system::{FORKS, fork_name};
use crate::functions::{Function, functions};

/// Blocks read between two checks whether the statement is cancelled.
const CHUNK: u32 = 256;

/// `pg_prewarm(relation [, mode [, fork [, first block, last block]]])`: returns the number of
/// blocks read.
fn prewarm(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some(Datum::Oid(number)) = values.first() else {
        return Err(SqlError::new("22004", "relation cannot be null"));
    };
    let oid = Oid(*number);
    if exec.catalog.relation(oid).is_none() {
        return Err(SqlError::new("42P01", format!("relation with OID {number} does not exist")));
    }
    match values.get(1) {
        None => {}
        Some(Datum::Text(mode)) if &**mode == "buffer" => {}
        Some(Datum::Text(mode)) if matches!(&**mode, "prefetch" | "read") => {
            return Err(SqlError::unsupported(format!("prewarm type \"{mode}\""))
                .with_hint("Mode \"buffer\" reads the blocks into the buffer pool."));
        }
        Some(Datum::Text(_)) => {
            return Err(SqlError::new("22023", "invalid prewarm type")
                .with_hint("Valid prewarm types are \"prefetch\", \"read\", and \"buffer\"."));
        }
        Some(_) => return Err(SqlError::new("22004", "prewarm type cannot be null")),
    }
    let fork = match values.get(2) {
        None => FORKS[0],
        Some(Datum::Text(fork)) => fork_name(fork)?,
        Some(_) => return Err(SqlError::new("22004", "relation fork cannot be null")),
    };
    exec.environment.lock_for_reading(*number)?;
    let bytes = exec.source.relation_bytes(exec.catalog, oid, fork)?;
    let blocks = i64::try_from(bytes / PAGE_SIZE as u64).unwrap_or(i64::MAX);
    let bound = |at: usize, what: &str, default: i64| match values.get(at) {
        None | Some(Datum::Null) => Ok(default),
        Some(Datum::Int8(block)) if (0..blocks).contains(block) => Ok(*block),
        Some(_) => {
            let last = blocks - 1;
            Err(SqlError::new("22023", format!("{what} block number must be between 0 and {last}")))
        }
    };
    let (first, last) = (bound(3, "starting", 0)?, bound(4, "ending", blocks - 1)?);
    let number = |block: i64| u32::try_from(block).unwrap_or(u32::MAX);
    let (mut next, end) = (number(first), number(last + 1));
    while next < end {
        exec.environment.check_interrupts()?;
        let chunk = next..end.min(next.saturating_add(CHUNK));
        next = chunk.end;
        exec.source.read_in(exec.catalog, oid, fork, chunk)?;
    }
    Ok(Datum::Int8((last + 1 - first).max(0)))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_prewarm" (REGCLASS) INT8 nullable single volatile Context(prewarm);
    "pg_prewarm" (REGCLASS, TEXT) INT8 nullable single volatile Context(prewarm);
    "pg_prewarm" (REGCLASS, TEXT, TEXT) INT8 nullable single volatile Context(prewarm);
    "pg_prewarm" (REGCLASS, TEXT, TEXT, INT8) INT8 nullable single volatile Context(prewarm);
    "pg_prewarm" (REGCLASS, TEXT, TEXT, INT8, INT8) INT8 nullable single volatile Context(prewarm);
};
