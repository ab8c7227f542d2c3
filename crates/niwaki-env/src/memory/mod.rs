//! The account of memory: what each thread has taken and not given back, and what all have.
//!
//! A statement takes memory at a thousand places: trees, plans, hash tables, values, buffers. One
//! place sees them all, the allocator; so it keeps the account ([`Counting`]), and whoever does work
//! for a client asks every so often whether the thread may go on ([`check`]), and before it takes
//! much at once ([`room`]). A session has a thread of its own, so the thread's part is the session's.
//!
//! ```text
//!   limit  ├── shared buffers ──┼── session A ──┼─ session B ─┼────── free ──────┤
//!          a session may hold at most SHARE times as much as is free
//! ```
//!
//! That rule (dynamic thresholds, Choudhury and Hahne 1998) needs no knowledge of how many sessions
//! there are: one may have two thirds, two have two fifths each, and some is always left for the
//! next one. A session below [`ALWAYS_BYTES`] is never refused.
//!
//! The account belongs to the process, as its allocator does: it cannot belong to a database. In a
//! process whose allocator does not count, nothing is ever refused here, but for the one question
//! that a simulation lets fail (`fail_at`).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::fmt;

use rustix::process::{Resource, getrlimit};

use crate::sync::plain_atomic::{AtomicIsize, AtomicUsize, Ordering};

mod resident;

pub use resident::{of_process as resident, purge, set_purge};

/// What a session may hold however little is left, in bytes: enough for a short statement, and for
/// the ROLLBACK of a long one.
pub const ALWAYS_BYTES: usize = 1 << 20;

/// How many times the free memory a session may hold.
const SHARE: usize = 2;

/// A thread adds what it took to the account of all when it is so much, in bytes: two hundred
/// threads are 12 MB off together.
const LOT_BYTES: isize = 64 << 10;

/// A thread that waits looks whether it should give back what it freed when it has moved so much.
const MOVED_BYTES: usize = 1 << 20;

// Relaxed throughout: numbers that stand for themselves.
static ALL: AtomicIsize = AtomicIsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// A thread's part of the account. What one thread takes and another gives back is on the wrong one
/// of them until [`hand_over`] says so.
struct Part {
    own: Cell<isize>,
    /// As much of `own` as the account of all has.
    told: Cell<isize>,
    /// How much more or less `own` may be than `told`. It doubles up to [`LOT_BYTES`], and 0 stays.
    lot: Cell<isize>,
    /// What was told since the thread gave back last, whatever its sign.
    moved: Cell<usize>,
}

// Nothing in it is dropped, so it is there from the thread's first allocation to its last.
std::thread_local! {
    static PART: Part = const {
        Part {
            own: Cell::new(0),
            told: Cell::new(0),
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
        if own.wrapping_sub(part.told.get()).unsigned_abs() >= part.lot.get().unsigned_abs() {
            tell(part);
        }
    });
}

#[cold]
fn tell(part: &Part) {
    part.lot.set(part.lot.get().wrapping_mul(2).min(LOT_BYTES));
    let own = part.own.get();
    let more = own.wrapping_sub(part.told.replace(own));
    ALL.fetch_add(more, Ordering::Relaxed);
    resident::moved(more);
    part.moved.set(part.moved.get().saturating_add(more.unsigned_abs()));
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

/// An allocator that keeps the account of another one: a program's `#[global_allocator]`.
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

/// More memory than the session may have: 53200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that the session has.
    pub own: usize,
    /// Bytes that it wants beside them.
    pub wanted: usize,
    /// Bytes that all have.
    pub all: usize,
    /// Bytes that all may have.
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

/// What may help.
pub const FULL_HINT: &str = "Close cursors and prepared statements, run fewer such statements at once, or raise max_server_memory.";

/// Whether the thread may hold what it has. A comparison nearly always.
///
/// # Errors
/// [`Full`].
#[inline]
pub fn check() -> Result<(), Full> {
    room(0)
}

/// Whether the thread may take `wanted` bytes more.
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

/// Whether a buffer of this size may be taken; the caller can go on without it. Like a session, it
/// always gets [`ALWAYS_BYTES`].
#[inline]
pub fn has_room(bytes: usize) -> bool {
    bytes <= ALWAYS_BYTES || room(bytes).is_ok()
}

#[cold]
fn compare(own: usize, wanted: usize) -> Result<(), Full> {
    let (all, limit) = used();
    if limit == usize::MAX || crate::seeded_bug!("memory_unasked") {
        return Ok(());
    }
    share(own, wanted, all, limit)?;
    if share(own, wanted, resident::estimate(), limit).is_err()
        && share(own, wanted, resident::look(), limit).is_err()
    {
        // What the allocator keeps of it for this thread, nobody else can give back.
        if may_give_back() {
            give_back();
        }
        return share(own, wanted, resident::purged(), limit);
    }
    Ok(())
}

/// The thread is about to wait for its client. What it has freed is given back, if others may want
/// it: where memory has a limit, and three quarters of it are in use.
#[inline]
pub fn waits() {
    PART.with(|part| {
        // It freed what others had taken. It may have no more than they for that.
        if part.own.get() < 0 {
            part.told.set(part.told.get().wrapping_sub(part.own.replace(0)));
        }
    });
    let much = LIMIT.load(Ordering::Relaxed) / 4 * 3;
    // The estimate alone exceeds that sooner or later, however little is in use.
    if may_give_back() && resident::estimate() > much && resident::look() > much {
        give_back();
    }
}

/// Whether the thread has moved so much since it gave back last that it should do so before it is
/// silent for long.
#[inline]
pub fn may_give_back() -> bool {
    PART.with(|part| part.moved.get() >= MOVED_BYTES)
}

/// Gives back what the thread has freed: an allocator keeps some megabytes of that for it.
#[cold]
pub fn give_back() {
    PART.with(|part| part.moved.set(0));
    resident::purge_own();
}

#[cfg(feature = "sim")]
pub use questions::fail_at;

/// What is asked here, counted: any session may have so much that it is refused the next question.
#[cfg(feature = "sim")]
mod questions {
    use std::cell::Cell;

    use super::Full;

    // The system's thread, which all simulated threads of a schedule share.
    std::thread_local! {
        static ASKED: Cell<u64> = const { Cell::new(0) };
        static REFUSED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From here on questions count from 0 in this thread, and the one with this number is refused,
    /// whatever it asks for. Returns how many there were since the last call.
    pub fn fail_at(question: Option<u64>) -> u64 {
        REFUSED.set(question);
        ASKED.replace(0)
    }

    /// Counts a question, and refuses it if that is its turn.
    pub(super) fn ask(own: usize, wanted: usize) -> Result<(), Full> {
        let question = ASKED.get();
        ASKED.set(question.wrapping_add(1));
        match REFUSED.get() == Some(question) {
            true => Err(Full { own, wanted, all: own, limit: own }),
            false => Ok(()),
        }
    }
}

/// The rule of this module.
fn share(own: usize, wanted: usize, all: usize, limit: usize) -> Result<(), Full> {
    let free = limit.saturating_sub(all).saturating_sub(wanted);
    if own.saturating_add(wanted) <= free.saturating_mul(SHARE) {
        return Ok(());
    }
    Err(Full { own, wanted, all, limit })
}

/// Bounds what all threads may take together, and what the process may have in memory, in bytes.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
    resident::look();
}

/// Bytes that all threads have, and that they may have.
pub fn used() -> (usize, usize) {
    let all = usize::try_from(ALL.load(Ordering::Relaxed)).unwrap_or(0);
    (all, LIMIT.load(Ordering::Relaxed))
}

/// Bytes that this thread has; a session has a thread of its own.
pub fn of_thread() -> usize {
    PART.with(|part| usize::try_from(part.own.get()).unwrap_or(0))
}

/// The thread has put `bytes` where another one will give them back.
pub fn hand_over(bytes: usize) {
    PART.with(|part| {
        let bytes = signed(bytes);
        // Those stay on the account of all.
        part.own.set(part.own.get().wrapping_sub(bytes));
        part.told.set(part.told.get().wrapping_sub(bytes));
    });
}

/// The thread has taken `bytes` that another one had put somewhere ([`hand_over`]).
pub fn take_over(bytes: usize) {
    PART.with(|part| {
        let bytes = signed(bytes);
        part.own.set(part.own.get().wrapping_add(bytes));
        part.told.set(part.told.get().wrapping_add(bytes));
    });
}

/// Memory that no allocator of ours sees (a mapping, what foreign code takes), on the account while
/// this is there.
#[derive(Debug)]
#[must_use = "the memory is off the account when this goes"]
pub struct Held {
    bytes: usize,
    shared: bool,
}

impl Held {
    /// Of this thread.
    pub fn own(bytes: usize) -> Self {
        count(signed(bytes));
        Self { bytes, shared: false }
    }

    /// Of no thread.
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

/// Tells the account of all what this thread has taken and given back, and for a while at once: a
/// thread of the program's own may end without a word, and give back what was the thread's.
pub fn settle() {
    PART.with(|part| {
        tell(part);
        part.lot.set(1);
    });
}

/// The thread is about to end. What it still takes and gives back is told at once: a connection that
/// left some of it untold would be on the account of all for ever.
pub fn thread_ends() {
    PART.with(|part| {
        part.lot.set(0);
        tell(part);
    });
}

/// What the thread has is for another one, which takes it ([`join`]).
#[must_use = "what is left is to be joined"]
pub fn leave() -> isize {
    PART.with(|part| {
        tell(part);
        part.told.set(0);
        part.own.replace(0)
    })
}

/// The thread has what another one left to it.
pub fn join(left: isize) {
    PART.with(|part| {
        part.own.set(part.own.get().wrapping_add(left));
        part.told.set(part.told.get().wrapping_add(left));
    });
}

/// Runs `body`. What it takes and gives back is on the account of all, and no thread's: a thread
/// that it starts gives back some of it, and the thread that joins that one the rest.
pub fn apart<T>(body: impl FnOnce() -> T) -> T {
    let before = PART.with(|part| part.own.get());
    let result = body();
    PART.with(|part| {
        let more = part.own.replace(before).wrapping_sub(before);
        part.told.set(part.told.get().wrapping_sub(more));
    });
    result
}

/// Memory of a process that is not for the account, in bytes: its code, stacks, and what allocators
/// keep beside what was asked for.
const UNCOUNTED_BYTES: u64 = 96 << 20;

/// The least default limit, in bytes: what a server needs for some sessions.
const LIMIT_BYTES_MIN: u64 = 64 << 20;

/// The limit of a process that may have `memory` bytes, where none is set: three quarters of what
/// can be counted.
pub fn default_limit(memory: u64) -> u64 {
    (memory.saturating_sub(UNCOUNTED_BYTES) / 4 * 3).max(LIMIT_BYTES_MIN)
}

/// Memory that the process may have, in bytes: what the machine has, or the control groups that it
/// is in and its own limits allow. `None` where the system does not tell.
///
/// The limits of the process count address space and private data, used or not. So they bound what
/// can be had from above: stacks and what the allocator reserves are among it.
pub fn of_process() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = [Resource::As, Resource::Data].map(|of| getrlimit(of).current);
    groups.lines().filter_map(limit_of_group).chain(machine).chain(own.into_iter().flatten()).min()
}

/// The least limit of a control group and of those around it. `line`: `number:controllers:path`.
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
        // Two that have half each.
        assert!(!refused(39 << 20, 0, 78 << 20));
        assert!(refused(41 << 20, 0, 82 << 20));
    }

    #[test]
    fn the_default_limit_leaves_room_for_what_is_not_counted() {
        assert_eq!(default_limit(512 << 20), 312 << 20);
        assert_eq!(default_limit(3072 << 20), 2232 << 20);
        assert_eq!(default_limit(0), 64 << 20);
    }

    /// `ulimit -v` was not looked at: the server ran into it, and allocations that fail end it.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn limits_of_the_process_bound_what_it_may_have() {
        use rustix::process::{Rlimit, setrlimit};
        let all = of_process().expect("the system tells what there is");
        for resource in [Resource::As, Resource::Data] {
            let before = getrlimit(resource);
            // Far more than other tests of this process need meanwhile.
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
        // What is given back then is told at once.
        let given = std::thread::spawn(|| {
            thread_ends();
            count(-5);
            PART.with(|part| part.own.get() - part.told.get())
        });
        assert_eq!(given.join().unwrap(), 0);
        let settled = std::thread::spawn(|| {
            count(5);
            settle();
            let untold = PART.with(|part| part.own.get() - part.told.get());
            count(-5);
            settle();
            untold
        });
        assert_eq!(settled.join().unwrap(), 0);
        count(-(3 << 20));
        thread_ends();
        assert!(all().abs_diff(before.1) < 1 << 20);
    }

    #[test]
    fn what_is_taken_apart_is_on_the_account_of_all_alone() {
        let own = || PART.with(|part| part.own.get());
        let untold = || PART.with(|part| part.own.get() - part.told.get());
        let before = own();
        apart(|| count(5 << 20));
        assert_eq!(own(), before);
        count(7);
        let more = untold();
        apart(|| count(-3));
        assert_eq!((own(), untold()), (before + 7, more - 3));
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
