//! Threads, locks and atomics: real ones, or those of the deterministic scheduler (feature
//! `shuttle`). No poisoning: a panic inside a critical section ends the process, any other panic
//! ends one session.

#[cfg(not(feature = "shuttle"))]
pub use real::*;

#[cfg(not(feature = "shuttle"))]
mod real {
    pub use parking_lot::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
    pub use std::sync::Arc;
    pub use std::sync::atomic;
    pub use std::thread;
}
