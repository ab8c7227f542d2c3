//! Stack for deep recursion: additional segments when a thread's stack runs out.
//!
//! Every recursion over something that a client made (a statement, a value, a chain of views) goes
//! down through [`deeper`]. Only this module knows where the stack ends. [`deeper`] adds a segment
//! where the thread's own stack is used up, so that the answer does not depend on the thread. It
//! refuses a recursion that would take more than [`BYTES_MAX`] in all.
//!
//! Some recursion can neither be refused nor guarded at each level: copying, comparing and dropping
//! trees. Such recursion takes less stack for a level than the code that built the tree. So trees
//! are built on one segment, [`whole`]. The stack that building a part took is free again below the
//! frame that has the part. Later work on the tree runs in [`room`] with as much stack as building
//! took. [`measured`] returns that amount, and [`Deep`] keeps it.

/// The greatest stack that all segments of a thread may take together, in bytes. Code without
/// optimisation takes several times as much for a level, and must answer the same statements.
pub const BYTES_MAX: usize = if cfg!(debug_assertions) { 512 << 20 } else { 128 << 20 };

/// Stack that stays free below a frame that was let in, in bytes. For code that does not recurse,
/// and for code that recurses within a small bound of its own (a thousand levels of JSON).
pub const RESERVE_BYTES: usize = 1 << 20;

/// Error: the stack would have become larger than [`BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooDeep;

/// A tree that may be deep, and the stack that building it took, in bytes. Dropping, copying and
/// comparing the tree get as much stack.
#[derive(Debug)]
pub struct Deep<T> {
    /// Absent only while the tree is dropped.
    tree: Option<T>,
    bytes: usize,
}

impl<T> Deep<T> {
    /// Keeps a tree.
    pub fn new(tree: T, bytes: usize) -> Self {
        Self { tree: Some(tree), bytes }
    }

    /// Sets the stack that building the tree took, in bytes, if it becomes known later.
    pub fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Returns the stack that building the tree took, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<T: Clone> Clone for Deep<T> {
    fn clone(&self) -> Self {
        room(self.bytes, || Self { tree: self.tree.clone(), bytes: self.bytes })
    }
}

impl<T: PartialEq> PartialEq for Deep<T> {
    fn eq(&self, other: &Self) -> bool {
        room(self.bytes, || self.tree == other.tree)
    }
}

impl<T> std::ops::Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tree.as_ref().expect("a tree that is not being dropped")
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        let tree = self.tree.take();
        room(self.bytes, || drop(tree));
    }
}

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub use machine::{deeper, deeper_by, measured, of_thread, room, whole};
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub use modelled::{deeper, deeper_by, measured, of_thread, room, whole};

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod machine {
    use std::cell::Cell;
    use std::hint::black_box;

    use super::{BYTES_MAX, RESERVE_BYTES, TooDeep};
    use crate::memory;

    /// Size of a segment that [`deeper`] adds, in bytes: large, so that loops seldom run at a
    /// segment's edge.
    const SEGMENT_BYTES: usize = 16 << 20;

    /// Assumed rest of a stack whose bounds the system does not tell, in bytes.
    const UNKNOWN_BYTES: usize = 256 << 10;

    /// The segment that the thread runs on.
    #[derive(Clone, Copy)]
    struct Segment {
        /// The segment's lowest address.
        end: usize,
        /// The highest address that is known to be in the segment.
        begin: usize,
        /// Bytes in use in the segments before this one.
        before: usize,
        /// True if the system knows the segment as the thread's stack.
        own: bool,
        /// True if the whole tree stays on this segment: no segment is added below it.
        whole: bool,
    }

    impl Segment {
        fn left(self, here: usize) -> usize {
            here.saturating_sub(self.end)
        }

        /// Returns the bytes in use in all segments.
        fn used(self, here: usize) -> usize {
            self.before + self.begin.saturating_sub(here)
        }
    }

    std::thread_local! {
        static SEGMENT: Cell<Option<Segment>> = const { Cell::new(None) };
        /// The lowest address of this segment that was checked. A higher address is neither too
        /// deep nor deeper than the measured maximum. So a check nearly always costs one
        /// comparison.
        static SEEN: Cell<usize> = const { Cell::new(usize::MAX) };
        /// True if a segment that must stay whole was too small.
        static REFUSED: Cell<bool> = const { Cell::new(false) };
        /// The greatest stack use since the innermost [`measured`] began, in bytes.
        static MOST: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns an address in the caller's frame, or near it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a frame of its own would be measured too")]
    fn here() -> usize {
        let marker = 0u8;
        std::ptr::from_ref::<u8>(black_box(&marker)).addr()
    }

    #[inline]
    fn segment(here: usize) -> Segment {
        match SEGMENT.get() {
            Some(segment) => segment,
            None => first(here),
        }
    }

    /// Describes the thread's own stack.
    #[cold]
    fn first(here: usize) -> Segment {
        let left = stacker::remaining_stack().unwrap_or(UNKNOWN_BYTES);
        let end = here.saturating_sub(left);
        let segment = Segment { end, begin: here, before: 0, own: true, whole: false };
        SEGMENT.set(Some(segment));
        segment
    }

    /// Returns the thread to its segment, also after a panic.
    struct Back(Segment, usize);

    impl Drop for Back {
        fn drop(&mut self) {
            SEGMENT.set(Some(self.0));
            SEEN.set(self.1);
        }
    }

    #[cold]
    #[inline(never)]
    fn on_new_segment<T>(bytes: usize, whole: bool, body: impl FnOnce() -> T) -> T {
        let (mut body, mut result) = (Some(body), None);
        run_on_new_segment(bytes, whole, &mut || result = body.take().map(|body| body()));
        match result {
            Some(result) => result,
            None => unreachable!("a body that was run gave something"),
        }
    }

    /// Does the work of [`on_new_segment`]. Not generic: its code would be there for each body.
    #[cold]
    #[inline(never)]
    fn run_on_new_segment(bytes: usize, whole: bool, body: &mut dyn FnMut()) {
        let from = here();
        let old = segment(from);
        let _back = Back(old, SEEN.replace(usize::MAX));
        // The mapping is no allocation of ours, and all of it may be used.
        let _held = memory::Held::own(bytes);
        stacker::grow(bytes, || {
            let begin = here();
            // The frames above this one took a little of the segment.
            let end = begin.saturating_sub(bytes.saturating_sub(4096));
            let before = old.used(from);
            SEGMENT.set(Some(Segment { end, begin, before, own: false, whole }));
            body();
        });
    }

    /// Runs `body`, which recurses, with at least [`RESERVE_BYTES`] of stack.
    ///
    /// # Errors
    /// [`TooDeep`], and `body` is not run; the errors of `body`.
    #[inline]
    pub fn deeper<T, E: From<TooDeep>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        deeper_by(0, body)
    }

    /// Does the same as [`deeper`] with `bytes` more: for code that reads a tree whose building
    /// took as much.
    ///
    /// # Errors
    /// The errors of [`deeper`].
    #[inline]
    pub fn deeper_by<T, E: From<TooDeep>>(
        bytes: usize,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let here = here();
        if bytes == 0 && here >= SEEN.get() {
            return body();
        }
        let segment = segment(here);
        let used = segment.used(here);
        MOST.set(used.max(MOST.get()));
        if used > BYTES_MAX {
            return Err(E::from(TooDeep));
        }
        let wanted = bytes.saturating_add(RESERVE_BYTES);
        if segment.left(here) < wanted && !crate::seeded_bug!("stack_not_grown") {
            if segment.whole {
                REFUSED.set(true);
                return Err(E::from(TooDeep));
            }
            return on_new_segment(wanted.max(SEGMENT_BYTES), false, body);
        }
        SEEN.set(here.max(segment.end + RESERVE_BYTES).min(SEEN.get()));
        body()
    }

    /// Runs `build`, which makes a tree, on one segment. If the thread's segment is too small,
    /// `build` begins again on a large one.
    ///
    /// # Errors
    /// The errors of `build`; [`TooDeep`], if the tree is too deep for the large segment, too.
    pub fn whole<T, E: From<TooDeep>>(build: impl Fn() -> Result<T, E>) -> Result<T, E> {
        let from = here();
        let own = segment(from);
        if own.whole {
            // The caller builds a part of a larger tree.
            return build();
        }
        REFUSED.set(false);
        let result = {
            let _back = Back(own, SEEN.get());
            SEGMENT.set(Some(Segment { whole: true, ..own }));
            deeper(&build)
        };
        if result.is_ok() || !REFUSED.get() || own.used(from) > BYTES_MAX {
            return result;
        }
        on_new_segment(BYTES_MAX, true, build)
    }

    /// Runs `body` with `bytes` of stack, and [`RESERVE_BYTES`] in addition.
    #[inline]
    pub fn room<T>(bytes: usize, body: impl FnOnce() -> T) -> T {
        let here = here();
        let wanted = bytes.saturating_add(RESERVE_BYTES);
        if segment(here).left(here) < wanted {
            return on_new_segment(wanted.max(SEGMENT_BYTES), segment(here).whole, body);
        }
        body()
    }

    /// Does the same as [`room`], on a stack that the system knows as a thread's. That is the
    /// running thread's stack or, if it is too small, another thread's. For foreign code that asks
    /// the system for the rest of its stack.
    pub fn of_thread<T: Send>(bytes: usize, body: impl FnOnce() -> T + Send) -> T {
        let here = here();
        let wanted = bytes.saturating_add(RESERVE_BYTES);
        let segment = segment(here);
        if segment.own && segment.left(here) >= wanted {
            return body();
        }
        let mut body = Some(body);
        let place = &mut body;
        let run = move || {
            let done = place.take().map(|body| (body(), memory::leave()));
            memory::thread_ends();
            done
        };
        let builder = std::thread::Builder::new().name("deep".to_owned());
        let builder = builder.stack_size(wanted.saturating_add(RESERVE_BYTES));
        let run_there = || {
            std::thread::scope(|scope| match builder.spawn_scoped(scope, run) {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                Err(_) => None,
            })
        };
        let done = memory::apart(run_there);
        match (done, body) {
            (Some((done, left)), _) => {
                memory::join(left);
                done
            }
            // The system has no thread to give, so the foreign code may assume too small a stack.
            (None, Some(body)) => room(bytes, body),
            (None, None) => unreachable!("a body that was run gave something"),
        }
    }

    /// Runs `body`. Returns its result, and the stack in bytes that it took at its deepest
    /// [`deeper`].
    pub fn measured<T>(body: impl FnOnce() -> T) -> (T, usize) {
        let here = here();
        let used = segment(here).used(here);
        let outer = MOST.replace(used);
        SEEN.set(usize::MAX);
        let result = body();
        let most = MOST.get();
        MOST.set(outer.max(most));
        (result, most - used)
    }
}

/// Stacks under a scheduler, which made them: their bounds are not known.
#[cfg(any(feature = "shuttle", feature = "loom"))]
mod modelled {
    use super::TooDeep;

    /// Runs `body`.
    ///
    /// # Errors
    /// The errors of `body`.
    pub fn deeper<T, E: From<TooDeep>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        body()
    }

    /// Runs `body`.
    pub fn room<T>(_: usize, body: impl FnOnce() -> T) -> T {
        body()
    }

    /// Runs `body`.
    pub fn of_thread<T: Send>(_: usize, body: impl FnOnce() -> T + Send) -> T {
        body()
    }

    /// Runs `body`.
    ///
    /// # Errors
    /// The errors of `body`.
    pub fn deeper_by<T, E: From<TooDeep>>(
        _: usize,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        body()
    }

    /// Runs `build`.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn whole<T, E: From<TooDeep>>(build: impl Fn() -> Result<T, E>) -> Result<T, E> {
        build()
    }

    /// Runs `body`; the stack that it took is not known.
    pub fn measured<T>(body: impl FnOnce() -> T) -> (T, usize) {
        (body(), 0)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::sync::thread;

    /// Recurses `levels` deep, or to the end of the stack.
    fn down(levels: usize) -> Result<usize, TooDeep> {
        deeper(|| {
            let frame = std::hint::black_box([1u8; 512]);
            match levels.checked_sub(1) {
                Some(below) => Ok(down(below)? + usize::from(frame[levels % 512])),
                None => Ok(0),
            }
        })
    }

    /// Does the same as [`down`], without checks of the stack.
    fn unguarded(levels: usize) -> usize {
        let frame = std::hint::black_box([1u8; 512]);
        let below = levels.checked_sub(1).map_or(0, unguarded);
        below + usize::from(frame[levels % 512])
    }

    /// Runs `body` in a thread whose stack is far too small for it.
    fn in_small_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn_with_stack("small", 64 << 10, body).unwrap().join().unwrap()
    }

    #[test]
    fn recursion_goes_beyond_the_threads_own_stack_and_ends() {
        assert_eq!(in_small_thread(|| down(50_000)), Ok(50_000));
        assert_eq!(in_small_thread(|| down(usize::MAX)), Err(TooDeep));
        // The thread is as before the recursion.
        assert_eq!(in_small_thread(|| (down(usize::MAX), down(1_000))), (Err(TooDeep), Ok(1_000)));
    }

    /// Environment variable of a process that must end where its stack does.
    #[cfg(feature = "sim")]
    const ENDS: &str = "NIWAKI_STACK_ENDS";

    #[cfg(feature = "sim")]
    #[test]
    #[ignore = "plants a bug for the whole process: run alone"]
    fn a_stack_that_does_not_grow_is_found() {
        use std::os::unix::process::ExitStatusExt;
        if std::env::var_os(ENDS).is_some() {
            crate::bugs::plant(Some("stack_not_grown"));
            let _ = in_small_thread(|| down(50_000));
            return;
        }
        let here = std::env::current_exe().unwrap();
        let name = "stack::tests::a_stack_that_does_not_grow_is_found";
        let mut child = std::process::Command::new(here);
        let child = child.args(["--exact", name, "--ignored"]).env(ENDS, "1");
        let output = child.output().unwrap();
        assert!(output.status.signal().is_some(), "planted and not found: {output:?}");
    }

    #[test]
    fn what_was_measured_is_room_for_what_nobody_guards() {
        let deep = in_small_thread(|| {
            let (result, bytes) = measured(|| down(50_000));
            assert_eq!(result, Ok(50_000));
            assert!(bytes > 50_000 * 512, "{bytes}");
            room(bytes, || unguarded(50_000))
        });
        assert_eq!(deep, 50_001);
    }

    /// A list that is dropped and counted without a check of the stack.
    struct Link(
        #[expect(dead_code, reason = "only what dropping it takes matters")] Option<Box<Link>>,
    );

    fn chain(links: usize) -> Result<Link, TooDeep> {
        deeper(|| match links.checked_sub(1) {
            Some(rest) => Ok(Link(Some(Box::new(chain(rest)?)))),
            None => Ok(Link(None)),
        })
    }

    #[test]
    fn a_tree_is_dropped_on_the_segment_that_it_was_built_on_or_with_as_much_room() {
        in_small_thread(|| {
            // The list is dropped where the next part fails, inside of `build`.
            let failed = whole(|| {
                let first = chain(100_000)?;
                Err::<Link, _>(chain(usize::MAX).err().unwrap_or(TooDeep))
                    .inspect_err(|_| drop(first))
            });
            assert_eq!(failed.err(), Some(TooDeep));
            let (built, bytes) = measured(|| whole(|| chain(100_000)));
            drop(Deep::new(built, bytes));
        });
    }

    #[test]
    fn a_segment_is_on_the_threads_account() {
        let taken = in_small_thread(|| room(64 << 20, crate::memory::leave));
        assert!(taken >= 64 << 20, "{taken}");
    }

    #[test]
    fn a_panic_below_leaves_the_thread_as_it_was() {
        in_small_thread(|| {
            let panicked = std::panic::catch_unwind(|| room(1 << 20, || panic!("on purpose")));
            assert!(panicked.is_err());
            assert_eq!(down(10_000), Ok(10_000));
        });
    }
}
