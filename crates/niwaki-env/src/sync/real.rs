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

    /// Runs a thread's body, then tells the account of memory what is left of it.
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

    /// How many threads can run at the same time.
    pub fn processors() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts a thread with a name (what `ps` and a debugger show; at most 15 bytes of it).
    ///
    /// # Errors
    /// The system's, when it has no thread to give.
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
    /// The system's, when it has no thread to give.
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

    /// As [`spawn_with_stack`], in a scope.
    ///
    /// # Errors
    /// The system's, when it has no thread to give.
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

/// A hint to the processor inside a spin loop.
#[inline]
pub fn spin_loop() {
    std::hint::spin_loop();
}

/// A point where the deterministic scheduler may switch threads; nothing here.
#[inline]
pub fn yield_point() {}

/// Simulated waiting time; none here.
#[inline]
pub(crate) fn waited_us() -> u64 {
    0
}
