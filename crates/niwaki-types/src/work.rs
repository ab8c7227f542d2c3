//! Work on values, counted: a function whose cost follows its input says how much it does, and every so much
//! the session is asked whether the statement goes on.
//!
//! Values know of no session. So whoever runs a statement leaves in the thread what is to be asked ([`asking`]), and
//! [`tick`] costs a subtraction nearly always.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::error::Result;

/// Bytes or elements between two questions: about a millisecond of work.
const UNITS: usize = 1 << 20;

/// Fails when the statement is to end.
pub type Asker = Arc<dyn Fn() -> Result<()> + Send + Sync>;

niwaki_env::thread_local! {
    static LEFT: Cell<usize> = Cell::new(UNITS);
    static ASKER: RefCell<Option<Asker>> = RefCell::new(None);
}

/// What was asked before; that is asked again when this goes.
#[must_use = "what is to be asked is forgotten with it"]
pub struct Asking(Option<Asker>);

impl Drop for Asking {
    fn drop(&mut self) {
        let before = self.0.take();
        ASKER.with(|asker| asker.replace(before));
    }
}

/// Has `asker` asked for the work of this thread, until the result goes.
pub fn asking(asker: Asker) -> Asking {
    Asking(ASKER.with(|known| known.replace(Some(asker))))
}

/// Counts work: bytes read or written, or elements.
///
/// # Errors
/// What ends the statement: `57014`, `57P01`.
#[inline]
pub fn tick(units: usize) -> Result<()> {
    LEFT.with(|left| match left.get().checked_sub(units) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => ask(left),
    })
}

#[cold]
fn ask(left: &Cell<usize>) -> Result<()> {
    left.set(UNITS);
    // Not held while it is asked.
    let asker = ASKER.with(|asker| asker.borrow().clone());
    asker.map_or(Ok(()), |asker| asker())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TypeError;

    #[test]
    fn work_is_ended_by_who_is_asked_and_only_as_long_as_he_is() {
        let refuses: Asker = Arc::new(|| Err(TypeError::new("57014", "cancelled")));
        let work = || (0..2 * UNITS).try_for_each(|_| tick(1));
        assert_eq!(work(), Ok(()));
        {
            let _outer = asking(Arc::clone(&refuses));
            {
                let _inner = asking(Arc::new(|| Ok(())));
                assert_eq!(work(), Ok(()));
            }
            assert_eq!(work().unwrap_err().sqlstate, "57014");
            assert_eq!(tick(usize::MAX).unwrap_err().sqlstate, "57014");
        }
        assert_eq!(work(), Ok(()));
    }
}
