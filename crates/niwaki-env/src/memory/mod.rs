//! The account of memory: bytes that each thread, and all threads, have taken and not freed.
//!
//! A statement takes memory at a thousand places: trees, plans, hash tables, values, buffers. The
//! allocator sees all of them, so it keeps the account ([`Counting`]). Code that works for a client
//! asks now and then whether the thread may go on ([`check`]). It also asks before it takes much
//! memory at once ([`room`]). A session has a thread of its own, so the thread's part is the
//! session's.
//!
//! ```text
//!   limit  ├── shared buffers ──┼── session A ──┼─ session B ─┼────── free ──────┤
//!          a session may hold at most SHARE times as much as is free
//! ```
//!
//! That rule (dynamic thresholds, Choudhury and Hahne 1998) needs no knowledge of the number of
//! sessions. One session may have two thirds, two have two fifths each, and some memory is always
//! left for the next one. A session below [`ALWAYS_BYTES`] is never refused.
//!
//! The account belongs to the process, as its allocator does: it cannot belong to a database. In a
//! process whose allocator does not count, this module refuses nothing. The only exception is the
//! one question that a simulation lets fail (`fail_at`).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::fmt;

use rustix::process::{Resource, getrlimit};

use crate::sync::plain_atomic::{AtomicIsize, AtomicUsize, Ordering};

mod resident;

pub use resident::{of_process as resident, purge, set_purge};

/// Memory that a session may hold even if no memory is left, in bytes. Enough for a short
/// statement, and for the ROLLBACK of a long one.
pub const ALWAYS_BYTES: usize = 1 << 20;

/// The memory that a session may hold, as a multiple of the free memory.
const SHARE: usize = 2;

/// Bytes that a thread takes or frees before it reports them to the account of all threads. Two
/// hundred threads are off by 12 MB together.
const LOT_BYTES: isize = 64 << 10;

/// Bytes that a thread takes and frees before a wait of the thread gives memory back.
const MOVED_BYTES: usize = 1 << 20;

// Relaxed throughout: no other data depends on these numbers.
static ALL: AtomicIsize = AtomicIsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// A thread's part of the account. Memory that one thread takes and another frees is on the wrong
/// part until [`hand_over`] corrects that.
struct Part {
    own: Cell<isize>,
    /// The part of `own` that the account of all threads includes.
    flushed: Cell<isize>,
    /// The difference between `own` and `flushed` at which the thread reports. It doubles up to
    /// [`LOT_BYTES`], and 0 stays.
    lot: Cell<isize>,
    /// Bytes reported since the thread gave memory back last, without regard to sign.
    moved: Cell<usize>,
}

// No field is dropped, so the value exists from the thread's first allocation to its last.
std::thread_local! {
    static PART: Part = const {
        Part {
            own: Cell::new(0),
            flushed: Cell::new(0),
            lot: Cell::new(LOT_BYTES),
            moved: Cell::new(0),
        }
    };
}

#[inline]
fn count(bytes: isize) {
    PART.with(|part| {
        let own = part.own.get().wrapping_add(bytes);
        part.own.set(own);
        if own.wrapping_sub(part.flushed.get()).unsigned_abs() >= part.lot.get().unsigned_abs() {
            flush_count(part);
        }
    });
}

#[cold]
fn flush_count(part: &Part) {
    part.lot.set(part.lot.get().wrapping_mul(2).min(LOT_BYTES));
    let own = part.own.get();
    let more = own.wrapping_sub(part.flushed.replace(own));
    ALL.fetch_add(more, Ordering::Relaxed);
    resident::moved(more);
    part.moved.set(part.moved.get().saturating_add(more.unsigned_abs()));
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

/// An allocator that keeps the account of an inner one: a program's `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting<A>(pub A);

// SAFETY: every call goes to the inner allocator as it came, and counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let taken = unsafe { self.0.alloc(layout) };
        if !taken.is_null() {
            count(signed(layout.size()));
        }
        taken
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(signed(layout.size()).wrapping_neg());
        // SAFETY: as the caller promises.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let taken = unsafe { self.0.alloc_zeroed(layout) };
        if !taken.is_null() {
            count(signed(layout.size()));
        }
        taken
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let taken = unsafe { self.0.realloc(memory, layout, size) };
        if !taken.is_null() {
            count(signed(size).wrapping_sub(signed(layout.size())));
        }
        taken
    }
}

/// Error: the session wants more memory than it may have (53200).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that the session has.
    pub own: usize,
    /// Bytes that the session wants in addition.
    pub wanted: usize,
    /// Bytes that all threads have.
    pub all: usize,
    /// Bytes that all threads may have.
    pub limit: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [own, wanted, all, limit] =
            [self.own, self.wanted, self.all, self.limit].map(|bytes| bytes.div_ceil(1024));
        write!(f, "The session has {own} kB and needs {wanted} kB more; ")?;
        write!(f, "the server has {all} kB of {limit} kB.")
    }
}

/// Hint that goes with [`Full`].
pub const FULL_HINT: &str = "Close cursors and prepared statements, run fewer such statements at once, or raise max_server_memory.";

/// Checks whether the thread may hold the memory that it has. Nearly always one comparison.
///
/// # Errors
/// [`Full`].
#[inline]
pub fn check() -> Result<(), Full> {
    room(0)
}

/// Checks whether the thread may take `wanted` bytes more.
///
/// # Errors
/// [`Full`].
#[inline]
pub fn room(wanted: usize) -> Result<(), Full> {
    let own = of_thread();
    #[cfg(feature = "sim")]
    questions::ask(own, wanted)?;
    if own.saturating_add(wanted) <= ALWAYS_BYTES {
        return Ok(());
    }
    compare(own, wanted)
}

/// Returns whether the caller may take a buffer of this size, which the caller can do without. Like
/// a session, a buffer always gets [`ALWAYS_BYTES`].
#[inline]
pub fn has_room(bytes: usize) -> bool {
    bytes <= ALWAYS_BYTES || room(bytes).is_ok()
}

#[cold]
fn compare(own: usize, wanted: usize) -> Result<(), Full> {
    let (all, limit) = used();
    if limit == usize::MAX || is_spared() || crate::seeded_bug!("memory_unasked") {
        return Ok(());
    }
    share(own, wanted, all, limit)?;
    if share(own, wanted, resident::estimate(), limit).is_err()
        && share(own, wanted, resident::look(), limit).is_err()
    {
        // The allocator keeps freed memory for this thread, and no other thread can give that
        // memory back.
        if may_give_back() {
            give_back();
        }
        return share(own, wanted, resident::purged(), limit);
    }
    Ok(())
}

std::thread_local! {
    /// Number of [`Spared`] values in this thread.
    static SPARED: Cell<usize> = const { Cell::new(0) };
}

/// Spares the thread all refusals of memory until this value is dropped.
#[must_use = "refusals come back when this value is dropped"]
#[derive(Debug)]
pub struct Spared(());

/// Spares the thread all refusals: for short work whose failure would outlast the lack of memory.
pub fn spared() -> Spared {
    SPARED.set(SPARED.get() + 1);
    Spared(())
}

impl Drop for Spared {
    fn drop(&mut self) {
        // A simulation may have begun anew in between.
        SPARED.set(SPARED.get().saturating_sub(1));
    }
}

fn is_spared() -> bool {
    SPARED.get() > 0
}

/// Gives back the memory that the thread has freed, before it waits for its client, if other
/// threads may need it. That is so when memory has a limit, and three quarters of the limit are in
/// use.
#[inline]
pub fn waits() {
    PART.with(|part| {
        // The thread freed memory that others had taken. That must not allow it more memory than
        // others.
        if part.own.get() < 0 {
            part.flushed.set(part.flushed.get().wrapping_sub(part.own.replace(0)));
        }
    });
    let much = LIMIT.load(Ordering::Relaxed) / 4 * 3;
    // The estimate alone exceeds `much` sooner or later, even if little memory is in use.
    if may_give_back() && resident::estimate() > much && resident::look() > much {
        give_back();
    }
}

/// Returns whether the thread has taken and freed enough since it gave memory back last. Then it
/// should give memory back before it is idle for long.
#[inline]
pub fn may_give_back() -> bool {
    PART.with(|part| part.moved.get() >= MOVED_BYTES)
}

/// Gives back the memory that the thread has freed: an allocator keeps some megabytes of it for the
/// thread.
#[cold]
pub fn give_back() {
    PART.with(|part| part.moved.set(0));
    resident::purge_own();
}

#[cfg(feature = "sim")]
pub use questions::fail_at;

/// The questions about memory, counted: any session may hold enough memory that the next
/// question is refused.
#[cfg(feature = "sim")]
mod questions {
    use std::cell::Cell;

    use super::Full;

    // A thread of the system, which all simulated threads of a schedule share.
    std::thread_local! {
        static ASKED: Cell<u64> = const { Cell::new(0) };
        static REFUSED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Counts questions from 0 in this thread from now on, and refuses the question with this
    /// number, for any amount. Returns the number of questions since the last call.
    pub fn fail_at(question: Option<u64>) -> u64 {
        REFUSED.set(question);
        // A simulated process may have ended with its threads.
        super::SPARED.set(0);
        ASKED.replace(0)
    }

    /// Counts a question, and refuses it if it has the chosen number.
    pub(super) fn ask(own: usize, wanted: usize) -> Result<(), Full> {
        if super::is_spared() {
            return Ok(());
        }
        let question = ASKED.get();
        ASKED.set(question.wrapping_add(1));
        match REFUSED.get() == Some(question) {
            true => Err(Full { own, wanted, all: own, limit: own }),
            false => Ok(()),
        }
    }
}

/// Applies the rule of this module.
fn share(own: usize, wanted: usize, all: usize, limit: usize) -> Result<(), Full> {
    let free = limit.saturating_sub(all).saturating_sub(wanted);
    if own.saturating_add(wanted) <= free.saturating_mul(SHARE) {
        return Ok(());
    }
    Err(Full { own, wanted, all, limit })
}

/// Limits the memory that all threads may take together, and the resident memory of the process, in
/// bytes.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
    resident::look();
}

/// Returns the bytes that all threads have, and the bytes that they may have.
pub fn used() -> (usize, usize) {
    let all = usize::try_from(ALL.load(Ordering::Relaxed)).unwrap_or(0);
    (all, LIMIT.load(Ordering::Relaxed))
}

/// Returns the bytes that this thread has; a session has a thread of its own.
pub fn of_thread() -> usize {
    PART.with(|part| usize::try_from(part.own.get()).unwrap_or(0))
}

/// Takes `bytes` off this thread's part: another thread will free them.
pub fn hand_over(bytes: usize) {
    PART.with(|part| {
        let bytes = signed(bytes);
        // The bytes stay on the account of all threads.
        part.own.set(part.own.get().wrapping_sub(bytes));
        part.flushed.set(part.flushed.get().wrapping_sub(bytes));
    });
}

/// Puts `bytes` on this thread's part, which another thread handed over ([`hand_over`]).
pub fn take_over(bytes: usize) {
    PART.with(|part| {
        let bytes = signed(bytes);
        part.own.set(part.own.get().wrapping_add(bytes));
        part.flushed.set(part.flushed.get().wrapping_add(bytes));
    });
}

/// Memory that none of our allocators sees (a mapping, memory of foreign code). It is on the
/// account while this value lives.
#[derive(Debug)]
#[must_use = "the memory is off the account when this goes"]
pub struct Held {
    bytes: usize,
    shared: bool,
}

impl Held {
    /// Puts `bytes` on this thread's part.
    pub fn own(bytes: usize) -> Self {
        count(signed(bytes));
        Self { bytes, shared: false }
    }

    /// Puts `bytes` on the account of all threads only.
    pub fn shared(bytes: usize) -> Self {
        ALL.fetch_add(signed(bytes), Ordering::Relaxed);
        Self { bytes, shared: true }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = signed(self.bytes).wrapping_neg();
        if self.shared {
            ALL.fetch_add(bytes, Ordering::Relaxed);
        } else {
            count(bytes);
        }
    }
}

/// Reports this thread's part to the account of all threads, and reports every change at once for a
/// while. A thread that belongs to the program may end without notice, and then frees the thread's
/// own data.
pub fn settle() {
    PART.with(|part| {
        flush_count(part);
        part.lot.set(1);
    });
}

/// Notes that the thread is about to end. Every later change is reported at once. Otherwise a
/// connection's unreported rest would stay on the account of all threads for ever.
pub fn thread_ends() {
    PART.with(|part| {
        part.lot.set(0);
        flush_count(part);
    });
}

/// Removes and returns the thread's part, for another thread to take ([`join`]).
#[must_use = "what is left is to be joined"]
pub fn leave() -> isize {
    PART.with(|part| {
        flush_count(part);
        part.flushed.set(0);
        part.own.replace(0)
    })
}

/// Adds another thread's part ([`leave`]) to this thread's.
pub fn join(left: isize) {
    PART.with(|part| {
        part.own.set(part.own.get().wrapping_add(left));
        part.flushed.set(part.flushed.get().wrapping_add(left));
    });
}

/// Runs `body`, whose changes are on the account of all threads, but on no thread's part. For a
/// body that starts a thread: that thread frees some of the memory, and the thread that joins it
/// the rest.
pub fn apart<T>(body: impl FnOnce() -> T) -> T {
    let before = PART.with(|part| part.own.get());
    let result = body();
    PART.with(|part| {
        let more = part.own.replace(before).wrapping_sub(before);
        part.flushed.set(part.flushed.get().wrapping_sub(more));
    });
    result
}

/// Memory of a process that is not on the account, in bytes: its code, stacks, and the overhead of
/// allocators.
const UNCOUNTED_BYTES: u64 = 96 << 20;

/// The least default limit, in bytes: the need of a server with some sessions.
const LIMIT_BYTES_MIN: u64 = 64 << 20;

/// Returns the limit of a process that may have `memory` bytes, if none is set: three quarters of
/// the memory that can be counted.
pub fn default_limit(memory: u64) -> u64 {
    (memory.saturating_sub(UNCOUNTED_BYTES) / 4 * 3).max(LIMIT_BYTES_MIN)
}

/// Returns the memory that the process may have, in bytes: the least of the machine's memory, its
/// control groups' limits, and its own limits. `None` if the system does not tell.
///
/// The limits of the process count address space and private data, used or not. They are upper
/// bounds, because they include stacks and the allocator's reservations.
pub fn of_process() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = [Resource::As, Resource::Data].map(|of| getrlimit(of).current);
    groups.lines().filter_map(limit_of_group).chain(machine).chain(own.into_iter().flatten()).min()
}

/// Returns the least limit of a control group and of those around it. `line`:
/// `number:controllers:path`.
fn limit_of_group(line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        of if of.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let path = std::path::Path::new(path.trim_start_matches('/'));
    let read = |folder: &std::path::Path| {
        let text = std::fs::read_to_string(std::path::Path::new(root).join(folder).join(file));
        text.ok()?.trim().parse::<u64>().ok()
    };
    path.ancestors().filter_map(read).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_may_have_twice_what_is_free() {
        let refused =
            |own: usize, wanted: usize, all: usize| share(own, wanted, all, 100 << 20).is_err();
        assert!(!refused(10 << 20, 0, 10 << 20));
        assert!(!refused(66 << 20, 0, 66 << 20));
        assert!(refused(67 << 20, 0, 67 << 20));
        assert!(refused(1 << 20, 100 << 20, 2 << 20));
        // Two sessions that have half each.
        assert!(!refused(39 << 20, 0, 78 << 20));
        assert!(refused(41 << 20, 0, 82 << 20));
    }

    #[test]
    fn a_thread_is_spared_until_the_last_value_goes() {
        let outer = spared();
        drop(spared());
        assert!(is_spared());
        drop(outer);
        assert!(!is_spared());
    }

    #[test]
    fn the_default_limit_leaves_room_for_what_is_not_counted() {
        assert_eq!(default_limit(512 << 20), 312 << 20);
        assert_eq!(default_limit(3072 << 20), 2232 << 20);
        assert_eq!(default_limit(0), 64 << 20);
    }

    /// Once, `ulimit -v` was not read: the server ran into it, and failed allocations ended it.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn limits_of_the_process_bound_what_it_may_have() {
        use rustix::process::{Rlimit, setrlimit};
        let all = of_process().expect("the system tells what there is");
        for resource in [Resource::As, Resource::Data] {
            let before = getrlimit(resource);
            // The limit is far more than other tests of this process need meanwhile.
            let less = Rlimit { current: Some(all - 1), ..before };
            setrlimit(resource, less).expect("less is allowed");
            let found = of_process();
            setrlimit(resource, before).expect("it was so before");
            assert_eq!(found, Some(all - 1), "{resource:?}");
        }
        assert_eq!(of_process(), Some(all));
    }

    #[test]
    #[cfg(feature = "sim")]
    fn the_question_that_is_to_fail_does() {
        fail_at(Some(1));
        let answers = [check(), room(5), room(5)].map(|answer| answer.map_err(|full| full.wanted));
        assert_eq!(answers, [Ok(()), Err(5), Ok(())]);
        assert_eq!(fail_at(None), 3);
        assert!(check().is_ok());
    }

    #[test]
    fn what_is_held_is_on_the_account() {
        let own = || PART.with(|part| part.own.get());
        let before = own();
        let held = Held::own(3 << 20);
        assert_eq!(own() - before, 3 << 20);
        hand_over(1 << 20);
        assert_eq!(own() - before, 2 << 20);
        drop(held);
        assert_eq!(own() - before, -(1 << 20));
        assert!(room(0).is_ok());
    }

    #[test]
    fn what_a_thread_leaves_is_for_the_one_that_joins_it() {
        let (own, all) = (|| PART.with(|part| part.own.get()), || used().0);
        let before = (own(), all());
        let taken = std::thread::spawn(|| {
            std::mem::forget(Held::own(3 << 20));
            leave()
        });
        join(taken.join().unwrap());
        assert_eq!(own() - before.0, 3 << 20);
        // A later free is reported at once.
        let given = std::thread::spawn(|| {
            thread_ends();
            count(-5);
            PART.with(|part| part.own.get() - part.flushed.get())
        });
        assert_eq!(given.join().unwrap(), 0);
        let settled = std::thread::spawn(|| {
            count(5);
            settle();
            let unflushed = PART.with(|part| part.own.get() - part.flushed.get());
            count(-5);
            settle();
            unflushed
        });
        assert_eq!(settled.join().unwrap(), 0);
        count(-(3 << 20));
        thread_ends();
        assert!(all().abs_diff(before.1) < 1 << 20);
    }

    #[test]
    fn what_is_taken_apart_is_on_the_account_of_all_alone() {
        let own = || PART.with(|part| part.own.get());
        let unflushed = || PART.with(|part| part.own.get() - part.flushed.get());
        let before = own();
        apart(|| count(5 << 20));
        assert_eq!(own(), before);
        count(7);
        let more = unflushed();
        apart(|| count(-3));
        assert_eq!((own(), unflushed()), (before + 7, more - 3));
        apart(|| count(3 - (5 << 20)));
        count(-7);
        assert_eq!(own(), before);
    }

    #[test]
    fn a_group_without_a_limit_has_none() {
        assert_eq!(limit_of_group("4:cpu,cpuacct:/"), None);
        assert_eq!(limit_of_group("nonsense"), None);
    }
}
