//! Assertions that name the invariant which they hold.

/// Asserts an invariant of `docs/internals/invariants.md` by its name.
///
/// `invariant!(X4, pointer.is_used(), "entry at {tid} points at an unused line pointer")` panics
/// with `X4: entry at …` where the condition is false. The check is made in builds with debug
/// assertions, as tests and simulations are; release builds do not evaluate the condition. A check
/// that must stop damage in release builds too is an `assert!`, or an error.
///
/// # Panics
/// If the condition is false, in builds with debug assertions.
#[macro_export]
macro_rules! invariant {
    ($name:ident, $condition:expr $(,)?) => {
        debug_assert!($condition, "{}: {}", stringify!($name), stringify!($condition))
    };
    ($name:ident, $condition:expr, $($message:tt)+) => {
        debug_assert!($condition, "{}: {}", stringify!($name), format_args!($($message)+))
    };
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "X4: block 7 has no such line pointer")]
    #[cfg(debug_assertions)]
    fn a_broken_invariant_says_its_name() {
        let block = 7;
        invariant!(X4, block < 7, "block {block} has no such line pointer");
    }

    #[test]
    fn a_condition_that_holds_says_nothing() {
        invariant!(X4, 1 < 2);
    }
}
