//! Locks, atomics and threads of a scheduler that chooses the interleaving.
//!
//! The interface is the real one's, with these differences:
//!
//! - **Timeouts** (shuttle): a timed wait may time out at any of its next few scheduling points.
//!   Then the simulated waiting time moves by the wait's length, and every manual clock with it.
//!   There are no spurious wake-ups, so a wait without a timeout that no thread ends is reported as
//!   a deadlock.
//! - **Timeouts** (loom): a timed wait never times out. Models that need a timeout use an atomic
//!   flag.
//! - Outside an execution of the scheduler, every lock operation panics.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as PlainBool, Ordering as PlainOrdering};
use std::time::Duration;

#[cfg(all(feature = "loom", not(feature = "shuttle")))]
use loom as backend;
#[cfg(feature = "shuttle")]
use shuttle as backend;

use backend::sync as model;
use backend::thread::ThreadId;

/// Atomics; every access is a point where threads may be switched.
pub use model::atomic;

/// The greatest number of scheduling points that a timed wait lasts.
#[cfg(feature = "shuttle")]
const TIMED_WAIT_YIELDS_MAX: u64 = 24;

/// Mutual exclusion without poisoning.
#[derive(Default)]
pub struct Mutex<T> {
    inner: model::Mutex<T>,
}

/// Holds a [`Mutex`] until dropped.
pub struct MutexGuard<'a, T> {
    /// Absent only inside a wait on a condition variable.
    inner: Option<model::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a free mutex around `value`.
    #[cfg(feature = "shuttle")]
    pub const fn new(value: T) -> Self {
        Self { inner: model::Mutex::new(value) }
    }

    /// Creates a free mutex around `value`.
    #[cfg(not(feature = "shuttle"))]
    pub fn new(value: T) -> Self {
        Self { inner: model::Mutex::new(value) }
    }

    /// Waits for the mutex and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let inner = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        MutexGuard { inner: Some(inner), mutex: self }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { inner: Some(inner), mutex: self })
    }

    /// Returns the value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex { .. }")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_deref().expect("held outside of waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_deref_mut().expect("held outside of waits")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Many readers or one writer, without poisoning.
#[derive(Default)]
pub struct RwLock<T> {
    inner: model::RwLock<T>,
    readers: Readers,
}

/// Threads that read, each once: shuttle panics when such a thread takes the lock again, loom when
/// it gives the lock back again. `try_read` refuses such a thread before it asks the scheduler.
/// Otherwise shuttle would refuse the thread and count it as a reader all the same.
type Readers = parking_lot::Mutex<Vec<ThreadId>>;

/// Holds a [`RwLock`] for reading until dropped.
pub struct RwLockReadGuard<'a, T> {
    inner: model::RwLockReadGuard<'a, T>,
    reader: ThreadId,
    readers: &'a Readers,
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.readers.lock().retain(|reader| *reader != self.reader);
    }
}

/// Holds a [`RwLock`] for writing until dropped.
pub struct RwLockWriteGuard<'a, T>(model::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    #[cfg(feature = "shuttle")]
    pub const fn new(value: T) -> Self {
        Self { inner: model::RwLock::new(value), readers: Readers::new(Vec::new()) }
    }

    /// Creates a free lock around `value`.
    #[cfg(not(feature = "shuttle"))]
    pub fn new(value: T) -> Self {
        Self { inner: model::RwLock::new(value), readers: Readers::new(Vec::new()) }
    }

    /// Waits until no thread writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.reading(self.inner.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn reading<'a>(&'a self, inner: model::RwLockReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let reader = backend::thread::current().id();
        self.readers.lock().push(reader);
        RwLockReadGuard { inner, reader, readers: &self.readers }
    }

    /// Waits until no thread reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.inner.write().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Takes the lock for reading if no thread writes.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        if self.readers.lock().contains(&backend::thread::current().id()) {
            return None;
        }
        match self.inner.try_read() {
            Ok(guard) => Some(self.reading(guard)),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                Some(self.reading(poisoned.into_inner()))
            }
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock for writing if no thread reads or writes.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.inner.try_write() {
            Ok(guard) => Some(RwLockWriteGuard(guard)),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                Some(RwLockWriteGuard(poisoned.into_inner()))
            }
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock for reading; under a model checker the timeout never passes.
    pub fn try_read_for(&self, _: Duration) -> Option<RwLockReadGuard<'_, T>> {
        Some(self.read())
    }

    /// Takes the lock for writing; under a model checker the timeout never passes.
    pub fn try_write_for(&self, _: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        Some(self.write())
    }

    /// Returns the value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock { .. }")
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A place to wait for a change of the data that a [`Mutex`] guards.
///
/// Waiters queue in a plain list: no scheduling point lies inside it, so it needs no modelled lock.
#[derive(Default)]
pub struct Condvar {
    waiters: parking_lot::Mutex<VecDeque<Arc<Waiter>>>,
}

struct Waiter {
    notified: PlainBool,
    thread: backend::thread::Thread,
}

/// The result of a timed wait: whether its timeout ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns true when no notification came in time.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a place without waiters.
    pub const fn new() -> Self {
        Self { waiters: parking_lot::Mutex::new(VecDeque::new()) }
    }

    /// Frees the mutex, waits for a notification, takes the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiter = self.enqueue();
        guard.inner = None;
        // Ends: the notification ends the loop; a wake-up meant for another wait parks again.
        while !waiter.notified() {
            backend::thread::park();
        }
        relock(guard);
    }

    /// Does the same as [`Condvar::wait`], for at most `timeout` (see the module's text).
    #[cfg(feature = "shuttle")]
    pub fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        use shuttle::rand::Rng;
        let waiter = self.enqueue();
        guard.inner = None;
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..=TIMED_WAIT_YIELDS_MAX) {
            if waiter.notified() {
                break;
            }
            backend::thread::yield_now();
        }
        let timed_out = !waiter.notified();
        if timed_out {
            self.waiters.lock().retain(|other| !Arc::ptr_eq(other, &waiter));
            WAITED_US.set(WAITED_US.get() + u64::try_from(timeout.as_micros()).unwrap_or(0));
        }
        relock(guard);
        WaitTimeoutResult(timed_out)
    }

    /// Does the same as [`Condvar::wait`]: the model checker knows no time.
    #[cfg(not(feature = "shuttle"))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(false)
    }

    /// Waits while `condition` holds.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Wakes the thread that has waited longest. Returns false without a waiter.
    pub fn notify_one(&self) -> bool {
        let waiter = self.waiters.lock().pop_front();
        let found = waiter.is_some();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        found
    }

    /// Wakes every waiting thread. Returns their number.
    pub fn notify_all(&self) -> usize {
        let waiters = std::mem::take(&mut *self.waiters.lock());
        waiters.iter().for_each(|waiter| waiter.wake());
        waiters.len()
    }

    fn enqueue(&self) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            notified: PlainBool::new(false),
            thread: backend::thread::current(),
        });
        self.waiters.lock().push_back(Arc::clone(&waiter));
        waiter
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar { .. }")
    }
}

impl Waiter {
    fn notified(&self) -> bool {
        self.notified.load(PlainOrdering::SeqCst)
    }

    fn wake(&self) {
        self.notified.store(true, PlainOrdering::SeqCst);
        self.thread.unpark();
    }
}

fn relock<'a, T>(guard: &mut MutexGuard<'a, T>) {
    let mutex: &'a Mutex<T> = guard.mutex;
    guard.inner = mutex.lock().inner.take();
}

/// Threads of the scheduler.
pub mod thread {
    #[cfg(feature = "shuttle")]
    pub use shuttle::thread::{
        JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, park, scope, spawn,
        yield_now,
    };

    #[cfg(all(feature = "loom", not(feature = "shuttle")))]
    pub use loom::thread::{JoinHandle, Thread, ThreadId, current, park, spawn, yield_now};

    pub use std::thread::panicking;

    use super::backend;

    /// Returns a fixed number of processors; the scheduler runs one thread at a time.
    pub fn processors() -> usize {
        4
    }

    /// Starts a thread with a name.
    ///
    /// # Errors
    /// None here; the real function fails when the system has no thread to give.
    pub fn spawn_named<F, T>(name: &str, body: F) -> std::io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        backend::thread::Builder::new().name(name.to_owned()).spawn(body)
    }

    /// Starts a thread with a name; the scheduler's own setting decides about the stack.
    ///
    /// # Errors
    /// None here; the real function fails when the system has no thread to give.
    pub fn spawn_with_stack<F, T>(
        name: &str,
        _stack_bytes: usize,
        body: F,
    ) -> std::io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn_named(name, body)
    }

    /// Starts a thread in a scope; the scheduler's own settings decide about its name and stack.
    ///
    /// # Errors
    /// None here; the real function fails when the system has no thread to give.
    #[cfg(feature = "shuttle")]
    pub fn spawn_scoped<'scope, F, T>(
        scope: &'scope Scope<'scope, '_>,
        _name: &str,
        _stack_bytes: usize,
        body: F,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Ok(scope.spawn(body))
    }
}

std::thread_local! {
    /// Sum of all timed waits that timed out. All simulated threads share one real thread.
    static WAITED_US: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns the simulated waiting time so far.
pub(crate) fn waited_us() -> u64 {
    WAITED_US.get()
}

/// Lets other threads run, inside a spin loop.
pub fn spin_loop() {
    backend::thread::yield_now();
}

/// Lets the scheduler switch threads; does nothing outside its executions.
#[cfg(feature = "shuttle")]
pub fn yield_point() {
    if shuttle::current::try_get_current_task().is_some() && !std::thread::panicking() {
        // `sleep` is a plain switch; `yield_now` would also tell the scheduler to prefer others.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Lets the scheduler switch threads; does nothing under the model checker.
#[cfg(not(feature = "shuttle"))]
pub fn yield_point() {}
