//! The environment: one handle for the engine's access to the outside world.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, ManualClock, OsClock};
use crate::rng::{OsRng, Rng, SeededRng};
use crate::vfs::{MemoryVfs, OsVfs, Vfs};

/// The engine's access to the outside world, in one handle that is cheap to clone.
///
/// Production uses [`Env::os`]; tests put a memory or faulty file system, a manual clock and a
/// seeded generator in the same places (docs/internals/design.md, "Simulation").
#[derive(Clone, Debug)]
pub struct Env {
    /// Files of one data directory.
    pub vfs: Arc<dyn Vfs>,
    /// Wall and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// The hook that replaces the end of the process in simulations.
    pub on_abort: AbortHook,
}

/// True in a build for simulations (feature `sim`). Its limits are tiny, so that work which waits
/// for a batch happens in short runs too.
pub const SIMULATED: bool = cfg!(feature = "sim");

/// Distance that a simulated clock moves at every reading.
const SIMULATED_STEP: Duration = Duration::from_micros(10);

impl Env {
    /// Returns the machine: files below `root`, its clocks, the kernel's randomness.
    pub fn os(root: impl Into<PathBuf>) -> Self {
        Self {
            vfs: Arc::new(OsVfs::new(root)),
            clock: Arc::new(OsClock::new()),
            rng: Arc::new(OsRng),
            on_abort: AbortHook::default(),
        }
    }

    /// Returns the machine, but with all files in memory.
    pub fn memory() -> Self {
        Self { vfs: Arc::new(MemoryVfs::new()), ..Self::os("") }
    }

    /// Returns a world that `seed` determines: the given files, a clock that moves a little at
    /// every reading, seeded randomness. [`Crashed`] panics replace process aborts.
    pub fn simulated(vfs: Arc<dyn Vfs>, seed: u64) -> Self {
        Self {
            vfs,
            clock: Arc::new(ManualClock::ticking(SIMULATED_STEP)),
            rng: Arc::new(SeededRng::new(seed)),
            on_abort: AbortHook::panicking(),
        }
    }

    /// Ends the process because going on could lose or invent data (W2 of
    /// docs/internals/invariants.md): a failed fsync, an error inside a critical section. Recovery
    /// starts from the log.
    ///
    /// # Panics
    /// In simulated worlds, with [`Crashed`] as payload, after the hook ran.
    pub fn abort(&self, reason: &str) -> ! {
        self.on_abort.run(reason);
        crate::critical::end_process(reason)
    }
}

/// The end of the process in simulations. It is the payload of the panic that replaces an abort,
/// and the inner error of every file operation after a simulated crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crashed {
    /// The reason given to [`Env::abort`].
    pub reason: String,
}

impl fmt::Display for Crashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Crashed {}

type Hook = Arc<dyn Fn(&str) + Send + Sync>;

/// The hook that [`Env::abort`] calls before it ends the process; by default none.
#[derive(Clone, Default)]
pub struct AbortHook(Option<Hook>);

impl AbortHook {
    /// Creates a hook that calls `hook` with the reason. If `hook` returns, the process ends.
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Creates a hook that panics with [`Crashed`], which a simulation catches.
    pub fn panicking() -> Self {
        Self::new(|reason| std::panic::panic_any(Crashed { reason: reason.to_owned() }))
    }

    fn run(&self, reason: &str) {
        if let Some(hook) = &self.0 {
            hook(reason);
        }
    }
}

impl fmt::Debug for AbortHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "AbortHook(set)" } else { "AbortHook(none)" })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    #[test]
    fn a_simulated_abort_can_be_caught() {
        let env = Env::simulated(Arc::new(MemoryVfs::new()), 1);
        let caught: Result<(), _> = std::panic::catch_unwind(AssertUnwindSafe(|| -> () {
            env.abort("fsync of the log failed")
        }));
        let payload = caught.expect_err("abort never returns");
        let crashed = payload.downcast::<Crashed>().expect("payload of a simulated crash");
        assert_eq!(crashed.reason, "fsync of the log failed");
    }

    #[test]
    fn the_same_seed_gives_the_same_world() {
        let world = || Env::simulated(Arc::new(MemoryVfs::new()), 42);
        let (one, two) = (world(), world());
        assert_eq!(one.rng.next_u64(), two.rng.next_u64());
        assert_eq!(one.clock.now_unix_us(), two.clock.now_unix_us());
    }
}
