//! The unmix counter: how often roots of a heap lost `mixed` (rule `unmix-counter`).

use niwaki_env::sync::plain_atomic::AtomicU64;

/// Counter of the times that roots of one heap were cleared of `mixed` since the heap was opened.
#[derive(Debug, Default)]
pub(crate) struct UnmixCounter(pub(crate) AtomicU64);

/// Value of a heap's unmix counter at some moment (rule `unmix-counter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmixCount(pub(crate) u64);
