//! Locks, atomics and threads of the machine.

pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

/// Atomics; under a model checker every access is a point where threads may be switched.
pub use std::sync::atomic;

/// Threads.
pub mod thread {
    pub use std::thread::{
        JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope,
        spawn, yield_now,
    };

    /// Runs a thread's body, then adds the thread's rest to the account of memory.
    fn counted<T>(body: impl FnOnce() -> T) -> T {
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                crate::memory::thread_ends();
            }
        }
        let _ends = Ends;
        body()
    }

    /// Returns the number of threads that can run at the same time.
    pub fn processors() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts a thread with a name; `ps` and a debugger show at most 15 bytes of it.
    ///
    /// # Errors
    /// The system's error, when it has no thread to give.
    pub fn spawn_named<F, T>(name: &str, body: F) -> std::io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || counted(body))
    }

    /// Starts a thread with a name and a stack of `stack_bytes`.
    ///
    /// # Errors
    /// The system's error, when it has no thread to give.
    pub fn spawn_with_stack<F, T>(
        name: &str,
        stack_bytes: usize,
        body: F,
    ) -> std::io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(stack_bytes)
            .spawn(move || counted(body))
    }

    /// Does the same as [`spawn_with_stack`], in a scope.
    ///
    /// # Errors
    /// The system's error, when it has no thread to give.
    pub fn spawn_scoped<'scope, F, T>(
        scope: &'scope Scope<'scope, '_>,
        name: &str,
        stack_bytes: usize,
        body: F,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
        builder.spawn_scoped(scope, move || counted(body))
    }
}

/// Hints to the processor that a spin loop runs.
#[inline]
pub fn spin_loop() {
    std::hint::spin_loop();
}

/// Lets the deterministic scheduler switch threads; does nothing here.
#[inline]
pub fn yield_point() {}

/// Returns the simulated waiting time; zero here.
#[inline]
pub(crate) fn waited_us() -> u64 {
    0
}
