use std::time::Duration;

use super::atomic::{AtomicUsize, Ordering};
use super::{Arc, Condvar, Mutex, Parker, RwLock, Signal, thread};

/// Runs a test under the scheduler or model checker of this build, if any.
fn run(body: impl Fn() + Send + Sync + 'static) {
    #[cfg(feature = "shuttle")]
    shuttle::check_random(body, 500);
    #[cfg(all(feature = "loom", not(feature = "shuttle")))]
    loom::model(body);
    #[cfg(not(any(feature = "shuttle", feature = "loom")))]
    body();
}

#[test]
fn a_token_is_never_lost() {
    run(|| {
        let parker = Arc::new(Parker::new());
        let work = Arc::new(AtomicUsize::new(0));
        let (other, done) = (Arc::clone(&parker), Arc::clone(&work));
        let worker = thread::spawn_named("worker", move || {
            done.store(1, Ordering::Relaxed);
            other.unpark();
        })
        .unwrap();
        parker.park();
        assert_eq!(work.load(Ordering::Relaxed), 1);
        worker.join().unwrap();
    });
}

#[test]
fn who_is_to_stop_waits_no_more() {
    run(|| {
        let signal = Arc::new(Signal::default());
        let told = Arc::clone(&signal);
        // Ends: `set_stop`, whose effect stays, ends the loop; each wait alone lasts practically
        // for ever.
        let waiter = thread::spawn(move || while !told.wait(Duration::from_hours(1)) {});
        signal.set_stop(true);
        waiter.join().unwrap();
        assert!(signal.is_stopped());
        assert!(signal.wait(Duration::from_hours(1)), "at once");
        signal.set_stop(false);
        assert!(!signal.is_stopped());
    });
}

#[test]
fn a_condition_is_seen_by_its_waiter() {
    run(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let setter = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one();
        });
        let mut ready = shared.0.lock();
        while !*ready {
            shared.1.wait(&mut ready);
        }
        drop(ready);
        setter.join().unwrap();
    });
}

#[test]
fn readers_share_and_writers_do_not() {
    run(|| {
        let lock = Arc::new(RwLock::new(()));
        let one = lock.try_read().expect("free");
        assert!(lock.try_write().is_none());
        drop(one);
        let writer = lock.try_write().expect("free again");
        assert!(lock.try_read().is_none());
        drop(writer);
    });
}

#[test]
#[cfg(not(feature = "loom"))]
fn a_timed_wait_ends() {
    run(|| {
        let parker = Parker::new();
        assert!(!parker.park_timeout(Duration::from_millis(1)));
        parker.unpark();
        parker.unpark();
        assert!(parker.park_timeout(Duration::from_secs(1000)));
        assert!(!parker.park_timeout(Duration::ZERO));
        let mutex = Mutex::new(());
        let result = Condvar::new().wait_for(&mut mutex.lock(), Duration::from_millis(1));
        assert!(result.timed_out());
    });
}

#[test]
#[cfg(feature = "shuttle")]
fn a_timed_wait_moves_manual_clocks() {
    use crate::clock::{Clock, ManualClock};
    run(|| {
        let clock = ManualClock::new();
        let deadline = clock.monotonic() + Duration::from_secs(3);
        let parker = Parker::new();
        let mut waits = 0;
        while clock.monotonic() < deadline {
            assert!(!parker.park_timeout(Duration::from_secs(1)));
            waits += 1;
        }
        assert_eq!(waits, 3);
    });
}

crate::thread_local! {
    static OWN: std::cell::Cell<u32> = std::cell::Cell::new(0);
}

#[test]
fn each_thread_has_its_own_value() {
    run(|| {
        OWN.with(|own| own.set(1));
        thread::spawn(|| OWN.with(|own| assert_eq!(own.replace(2), 0))).join().unwrap();
        OWN.with(|own| assert_eq!(own.get(), 1));
    });
}
