//! Cached definitions: an opened relation keeps what was read of its definition.

use niwaki_env::memory;
use niwaki_types::work;

/// Spares the thread refusals of memory and cancels until the result is dropped. An error of this
/// moment would stay with the opened relation.
pub(crate) fn spared() -> (memory::Spared, work::Asking) {
    (memory::spared(), work::asking(None))
}
