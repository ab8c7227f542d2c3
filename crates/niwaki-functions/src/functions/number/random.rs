//! Random numbers, from the system or from a seed.
//!
//! Before `setseed`, numbers come from the system. After `setseed`, they come from xoroshiro128**
//! (Blackman and Vigna 2018), seeded by splitmix64 (Steele and others 2014). PostgreSQL does the
//! same, so the same seed gives the same numbers.

use niwaki_expr::context::ExecContext;
use niwaki_expr::seeded_random::SeededRandom;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::functions::{Function, functions};

/// Returns a uniform number of 52 bits in [0, 1).
fn random(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let bits = match &mut exec.scratch.random {
        Some(seeded) => seeded.next_number(),
        None => exec.environment.random(),
    };
    #[expect(clippy::cast_precision_loss, reason = "52 bits fit a float8")]
    Ok(Datum::Float8((bits >> 12) as f64 / 4_503_599_627_370_496.0))
}

fn setseed(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Float8(seed)] = values else {
        return Err(SqlError::internal("setseed was given values of other types"));
    };
    if !(-1.0..=1.0).contains(seed) {
        let shown = niwaki_types::to_text(
            &values[0],
            niwaki_types::TypeOid::FLOAT8,
            &niwaki_types::TextSettings { extra_float_digits: -9, ..Default::default() },
        );
        return Err(SqlError::new(
            "22023",
            format!("setseed parameter {shown} is out of allowed range [-1,1]"),
        ));
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 52 bits and a sign")]
    let number = (4_503_599_627_370_495.0 * seed) as i64;
    exec.scratch.random = Some(SeededRandom::new(number.cast_unsigned()));
    // A void function shows an empty string.
    Ok(Datum::text(""))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "random" () FLOAT8 strict single volatile Context(random);
    "setseed" (FLOAT8) VOID strict single volatile Context(setseed);
};
