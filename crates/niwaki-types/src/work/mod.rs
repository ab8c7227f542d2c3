//! Counted work on values, so that a statement can be ended in the middle.
//!
//! A function whose cost follows its input reports its work. After every [`UNITS`] the session is
//! asked whether the statement goes on.
//!
//! Values know no session. So the thread of a statement holds the question to ask ([`asking`]), and
//! [`tick`] costs a subtraction nearly always.
//!
//! Memory that values take is charged in `charge`, which also counts work.

pub(crate) mod charge;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering::Relaxed};

use crate::error::{Result, TypeError};

/// Bytes read or written between two questions: about a millisecond of work.
pub const UNITS: usize = 1 << 20;

/// Units that making a value of its own counts, beyond its bytes.
pub const VALUE_UNITS: usize = 32;

/// Fails when the statement is to end.
pub type Asker = Arc<dyn Fn() -> Result<()> + Send + Sync>;

niwaki_env::thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(UNITS) };
    static ASKER: RefCell<Option<Asker>> = const { RefCell::new(None) };
}

/// The question that was asked before. Dropping this value restores that question.
#[must_use = "what is to be asked is forgotten with it"]
pub struct Asking(Option<Asker>);

impl Drop for Asking {
    fn drop(&mut self) {
        let before = self.0.take();
        ASKER.with(|asker| asker.replace(before));
    }
}

/// Sets `asker` as the question for the work of this thread, until the result is dropped.
pub fn asking(asker: Option<Asker>) -> Asking {
    Asking(ASKER.with(|known| known.replace(asker)))
}

/// Number of questions after which work ahead is ended: some 50 ms of work.
const AHEAD_MAX: usize = 64;

/// Returns a question that ends long work: for work that is tried ahead of rows, and done again
/// where they are.
pub fn ahead() -> Asker {
    let left = AtomicUsize::new(AHEAD_MAX);
    Arc::new(move || {
        let asked = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        asked.map(drop).map_err(|_| TypeError::new("57014", "too much work to be done ahead"))
    })
}

/// Returns the question of this thread, for another thread that works for it.
pub fn asked() -> Option<Asker> {
    ASKER.with(|asker| asker.borrow().clone())
}

/// Counts work: bytes read or written, or elements.
///
/// # Errors
/// The errors that end the statement: `57014`, `57P01`.
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
    if niwaki_env::seeded_bug!("work_unasked") {
        return Ok(());
    }
    niwaki_env::memory::check()?;
    // The borrow ends before the question is asked.
    let asker = asked();
    asker.map_or(Ok(()), |asker| asker())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_ended_by_what_is_asked_and_only_as_long_as_it_is() {
        let refuses: Asker = Arc::new(|| Err(TypeError::new("57014", "cancelled")));
        let work = || (0..2 * UNITS).try_for_each(|_| tick(1));
        assert_eq!(work(), Ok(()));
        {
            let _outer = asking(Some(Arc::clone(&refuses)));
            {
                let _inner = asking(Some(Arc::new(|| Ok(()))));
                assert_eq!(work(), Ok(()));
            }
            assert_eq!(work().expect_err("cancelled").sqlstate, "57014");
            assert_eq!(tick(usize::MAX).expect_err("cancelled").sqlstate, "57014");
            assert!(asked().is_some());
        }
        assert_eq!(work(), Ok(()));
    }

    #[test]
    fn work_ahead_is_bounded() {
        let _asking = asking(Some(ahead()));
        let ended = (0..2 * AHEAD_MAX).position(|_| tick(2 * UNITS).is_err());
        assert_eq!(ended, Some(AHEAD_MAX));
    }
}
