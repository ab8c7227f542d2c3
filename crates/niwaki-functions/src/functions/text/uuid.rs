//! Functions on `uuid`.

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use crate::functions::{Function, functions};

/// Returns a random uuid (version 4): all bits but six are random.
#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn gen_random_uuid(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    const VERSION_4: u64 = 4 << 12;
    const VARIANT: u64 = 0b10 << 62;
    let high = exec.environment.random() & !(0xf << 12) | VERSION_4;
    let low = exec.environment.random() & !(0b11 << 62) | VARIANT;
    let value = u128::from(high) << 64 | u128::from(low);
    Ok(Datum::Uuid(value.to_be_bytes()))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "gen_random_uuid" () UUID strict single volatile Context(gen_random_uuid);
};
