//! Actors that advance one step at a time, in an order that a seed determines.
//!
//! An actor is a future. A step is one poll, from one `step().await` to the next, and counts as one
//! hold of a latch. So the protocol reads as straight code, and every place where another actor may
//! come in between is an `await`.

use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::random::Random;
use crate::rules::Rules;
use crate::state::violation::Invariant;
use crate::state::world::World;

/// Steps after which a run ends without a verdict. The longest runs take about 2,000.
const STEPS_MAX: u64 = 20_000;
/// Consecutive waiting polls, of all actors together, after which no actor can go on.
const WAITS_MAX: u64 = 500;

/// An actor's access to the shared state.
#[derive(Clone)]
pub(crate) struct Actor {
    world: Rc<RefCell<World>>,
    /// The actor's slot for a snapshot, and its name as holder of latches.
    pub(crate) id: usize,
    waits: Rc<Cell<bool>>,
}

impl Actor {
    pub(crate) fn new(world: &Rc<RefCell<World>>, id: usize) -> Self {
        Self { world: Rc::clone(world), id, waits: Rc::default() }
    }

    /// Returns the shared state, for this step. Never kept over an `await`.
    pub(crate) fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    pub(crate) fn rules(&self) -> Rules {
        self.world.borrow().rules
    }

    /// Ends the step: other actors may come in between.
    pub(crate) async fn step(&self) {
        self.waits.set(false);
        Yield(false).await;
    }

    /// Ends the step, and waits until another actor has done something.
    pub(crate) async fn wait(&self) {
        self.waits.set(true);
        Yield(false).await;
    }
}

/// Gives the turn back once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// An actor's work.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// An actor with its work.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) actor: Actor,
    pub(crate) work: Work,
}

/// The way the next actor is chosen.
enum Choice {
    /// Any actor, each time; or the same one again in `stay` of 8 times.
    Random { stay: usize },
    /// The actor with the highest priority that can go on. At a few moments the running actor gets
    /// the lowest priority. This is PCT: bugs of depth d are found with a probability that d and
    /// the length bound.
    Priorities { of: Vec<i32>, changes: Vec<u64> },
    /// Any actor, but one gets a turn rarely.
    Straggler { who: usize },
}

impl Choice {
    fn new(random: &mut Random, tasks: usize) -> Self {
        match random.below(8) {
            0 => Self::Random { stay: 0 },
            1 => Self::Random { stay: 4 + random.below(4) },
            2 => Self::Straggler { who: random.below(tasks) },
            _ => {
                // A random order, by sorting random numbers.
                let of = (0..tasks).map(|_| 1 + random.below(1 << 20) as i32).collect();
                let length = random.pick(&[12, 30, 60, 120, 300]);
                let depth = 1 + random.below(5);
                let changes = (0..depth).map(|_| random.below(length) as u64).collect();
                Self::Priorities { of, changes }
            }
        }
    }

    fn next(&mut self, random: &mut Random, able: &[usize], last: usize, step: u64) -> usize {
        let any = |random: &mut Random| able[random.below(able.len())];
        match self {
            Self::Random { stay } => {
                let stays = able.contains(&last) && random.below(8) < *stay;
                if stays { last } else { any(random) }
            }
            Self::Straggler { who } => {
                let chosen = any(random);
                if chosen == *who && !random.one_in(16) { any(random) } else { chosen }
            }
            Self::Priorities { of, changes } => {
                if changes.contains(&step) {
                    of[last] = -i32::try_from(step).expect("few steps");
                }
                *able.iter().max_by_key(|task| of[**task]).expect("somebody is able")
            }
        }
    }
}

/// The result of a run of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    AllDone,
    Violation,
    /// The caller's `stop` returned true.
    Stopped,
    /// The run is too long for a verdict.
    Unfinished,
}

/// Runs the tasks to their ends, step by step, and checks the invariants after each step. Before
/// each step calls `stop` with the number of steps made; true ends the run.
pub(crate) fn run(
    world: &Rc<RefCell<World>>,
    mut tasks: Vec<Task>,
    random: &mut Random,
    steps: &mut u64,
    mut stop: impl FnMut(u64) -> bool,
) -> End {
    let mut choice = Choice::new(random, tasks.len());
    let mut done = vec![false; tasks.len()];
    let mut blocked = vec![false; tasks.len()];
    let (mut last, mut waits, mut own) = (0, 0, 0);
    let mut able = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        able.clear();
        able.extend((0..tasks.len()).filter(|task| !done[*task] && !blocked[*task]));
        if able.is_empty() {
            // All actors wait: each looks again.
            blocked.fill(false);
            able.extend((0..tasks.len()).filter(|task| !done[*task]));
        }
        if able.is_empty() {
            return End::AllDone;
        }
        if stop(own) {
            return End::Stopped;
        }
        last = choice.next(random, &able, last, own);
        let task = &mut tasks[last];
        if world.borrow().traces() {
            world.borrow_mut().at_work = format!("{own:>5} {}", task.name);
        }
        done[last] = task.work.as_mut().poll(&mut context).is_ready();
        *steps += 1;
        own += 1;
        let waiting = !done[last] && task.actor.waits.get();
        if waiting {
            blocked[last] = true;
            waits += 1;
        } else {
            blocked.fill(false);
            waits = 0;
        }
        let mut world = world.borrow_mut();
        world.end_step();
        if waits > WAITS_MAX {
            world.violate(Invariant::Progress, || "everybody waits".to_owned());
        }
        if world.violation.is_some() {
            return End::Violation;
        }
        if own > STEPS_MAX {
            return End::Unfinished;
        }
    }
}
