//! `niwaki_memory`: memory of the process, as accounted and as resident.

use niwaki_catalog::Result;
use niwaki_env::memory;
use niwaki_types::{Datum, TypeOid};

/// Name of the view.
pub const MEMORY: &str = "niwaki_memory";

/// The view's columns, in bytes.
pub(crate) const COLUMNS: &[(&str, TypeOid)] = &[
    ("session", TypeOid::INT8),
    ("used", TypeOid::INT8),
    ("resident", TypeOid::INT8),
    ("allowed", TypeOid::INT8),
];

/// Gives the view's one row.
///
/// # Errors
/// The errors of `row`.
pub fn rows(row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
    let (used, allowed) = memory::used();
    let bytes = |bytes: usize| Datum::Int8(i64::try_from(bytes).unwrap_or(i64::MAX));
    let known = |found: Option<usize>| found.map_or(Datum::Null, bytes);
    row(&[
        bytes(memory::of_thread()),
        bytes(used),
        known(memory::resident()),
        known((allowed != usize::MAX).then_some(allowed)),
    ])
}
