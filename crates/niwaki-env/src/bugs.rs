//! Bugs planted on purpose, to prove that the suites find them.
//!
//! `if seeded_bug!("missing_image") { … }` is `false` in every build without the feature `sim`. In
//! builds with `sim` it is `false` unless a test has planted that very bug. So one build serves all
//! bugs, and no shipped build contains one. A build of one bug alone, for suites that plant no
//! bugs: `RUSTFLAGS='--cfg niwaki_bug="missing_image"'`.

/// Evaluates to whether the named bug is planted.
#[cfg(not(feature = "sim"))]
#[macro_export]
macro_rules! seeded_bug {
    ($name:tt) => {
        cfg!(niwaki_bug = $name)
    };
}

/// Evaluates to whether the named bug is planted.
#[cfg(feature = "sim")]
#[macro_export]
macro_rules! seeded_bug {
    ($name:tt) => {
        (cfg!(niwaki_bug = $name) || $crate::bugs::active($name))
    };
}

#[cfg(feature = "sim")]
pub use planted::{active, plant, visits};

#[cfg(feature = "sim")]
mod planted {
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::RwLock;

    static PLANTED: RwLock<Option<&'static str>> = RwLock::new(None);
    static VISITS: AtomicU64 = AtomicU64::new(0);

    /// Plants one bug, in place of any other; `None` removes it. Counting starts again.
    pub fn plant(name: Option<&'static str>) {
        *PLANTED.write() = name;
        VISITS.store(0, Ordering::SeqCst);
    }

    /// Returns whether this bug is planted, for `seeded_bug!`.
    pub fn active(name: &str) -> bool {
        let active = *PLANTED.read() == Some(name);
        if active {
            VISITS.fetch_add(1, Ordering::SeqCst);
        }
        active
    }

    /// Returns the number of times that the planted bug was met: 0 means that the test never came
    /// near it.
    pub fn visits() -> u64 {
        VISITS.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(feature = "sim")]
    fn only_the_planted_bug_is_active() {
        assert!(!seeded_bug!("one"));
        super::plant(Some("one"));
        assert!(seeded_bug!("one"));
        assert!(!seeded_bug!("two"));
        assert_eq!(super::visits(), 1);
        super::plant(None);
        assert!(!seeded_bug!("one"));
    }

    #[test]
    #[cfg(not(feature = "sim"))]
    fn no_bug_is_left_in_normal_builds() {
        let planted: bool = seeded_bug!("one");
        assert!(!planted);
    }
}
