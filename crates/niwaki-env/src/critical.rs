//! Critical sections: a page change and its log record happen together or not at all.
//!
//! Between the first changed byte and the log record nothing may fail. If code panics there, memory
//! and log disagree. Then the only safe way on is to end the process and recover.

use std::io::Write;

/// A critical section that ends when this guard is dropped.
///
/// If a panic drops the guard, the guard ends the process, so that no thread sees the half-made
/// change. In builds with the feature `sim` the guard only counts the panic (`panicked`) and lets
/// it pass. There the panic ends the simulated process, and only the files are looked at
/// afterwards.
#[derive(Debug)]
#[must_use = "the section ends when the guard is dropped"]
pub struct CriticalSection {
    /// True if a panic was unwinding the thread already, for instance when a destructor rolls a
    /// transaction back.
    unwinding: bool,
    /// Guards stay on the thread that entered.
    not_send: std::marker::PhantomData<*const ()>,
}

/// Enters a critical section on this thread.
#[inline]
pub fn enter() -> CriticalSection {
    let unwinding = std::thread::panicking();
    CriticalSection { unwinding, not_send: std::marker::PhantomData }
}

impl Drop for CriticalSection {
    #[inline]
    fn drop(&mut self) {
        // A panic inside of a destructor that runs during unwinding ends the process by itself.
        if !self.unwinding && std::thread::panicking() {
            left_by_panic();
        }
    }
}

/// Handles a panic that left a change half done: ends the process, as for a critical section.
#[cfg(not(feature = "sim"))]
#[cold]
pub fn left_by_panic() {
    end_process("a critical section was left by a panic");
}

/// Handles a panic that left a change half done: counts it, as for a critical section.
#[cfg(feature = "sim")]
#[cold]
pub fn left_by_panic() {
    PANICKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "sim")]
static PANICKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Returns the number of critical sections that a panic left so far (feature `sim` only). A
/// simulation that sees this number change treats the panic as the death of the process.
#[cfg(feature = "sim")]
pub fn panicked() -> u64 {
    PANICKED.load(std::sync::atomic::Ordering::SeqCst)
}

/// Prints the reason on standard error and aborts.
pub(crate) fn end_process(reason: &str) -> ! {
    // Written directly: the process ends whether or not anyone can read the message.
    let _ = writeln!(std::io::stderr().lock(), "niwaki: PANIC: {reason}; the process ends here");
    std::process::abort()
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_noticed() {
        let before = panicked();
        let result = std::panic::catch_unwind(|| {
            let _section = enter();
            std::panic::panic_any(crate::Crashed { reason: "test".to_owned() });
        });
        assert!(result.is_err());
        assert!(panicked() > before);
    }

    #[test]
    fn a_section_that_ends_well_does_nothing() {
        drop(enter());
    }

    /// Once, a program's thread that panicked with a transaction open ended the process.
    #[test]
    fn a_section_of_a_destructor_that_a_panic_runs_ends_well() {
        struct Ends<'c>(&'c std::cell::Cell<bool>);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                // Without the field the process would end.
                self.0.set(enter().unwinding);
            }
        }
        let known = std::cell::Cell::new(false);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ends = Ends(&known);
            std::panic::panic_any(crate::Crashed { reason: "test".to_owned() });
        }));
        assert!(result.is_err() && known.get());
    }
}
