//! Runs scenarios in many schedules, or replays one.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::access::durable::{failing_device, writer};
use crate::cleaning::deleter::deleter;
use crate::cleaning::gardener::gardener;
use crate::cleaning::prune::pruner;
use crate::cleaning::settle::{dropper, tender};
use crate::cleaning::vacuum::vacuum;
use crate::plan::{ActorPlan, Plan};
use crate::random::Random;
use crate::rules::Rules;
use crate::scenarios::Scenario;
use crate::scheduler;
use crate::scheduler::{Actor, End, Task};
use crate::state::heap::{LinePointer, Mixed, State, Tid, Values, Version};
use crate::state::index::{Index, Phase, entry};
use crate::state::oracle::{Write, Writes};
use crate::state::transactions::Slot;
use crate::state::violation::Violation;
use crate::state::world::{Events, World};
use crate::statement::build::build;
use crate::statement::reader::{old_reader, worker};
use crate::statement::session::session;

/// The result of a number of schedules.
#[derive(Debug, Default)]
pub struct Report {
    /// Schedules run.
    pub schedules: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Schedules that were given up because they were too long.
    pub unfinished: u64,
    /// Counts of what happened in them.
    pub events: Events,
    /// The first schedule that broke an invariant; it is the last one run.
    pub failure: Option<Failure>,
}

/// A schedule that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that replays it, with the same scenario and rules.
    pub seed: u64,
    /// The broken invariant.
    pub violation: Violation,
}

/// Runs the schedules of `seeds` until one breaks an invariant.
pub fn explore(scenario: &Scenario, rules: Rules, seeds: Range<u64>) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let run = play(scenario, rules, seed, false);
        report.schedules += 1;
        report.steps += run.steps;
        report.unfinished += u64::from(run.unfinished);
        report.events.add(&run.events);
        if let Some(violation) = run.violation {
            report.failure = Some(Failure { seed, violation });
            break;
        }
    }
    report
}

/// Plays one schedule, and returns its trace, step by step.
pub fn replay(scenario: &Scenario, rules: Rules, seed: u64) -> Vec<String> {
    play(scenario, rules, seed, true).trace
}

struct Run {
    steps: u64,
    unfinished: bool,
    events: Events,
    violation: Option<Violation>,
    trace: Vec<String>,
}

fn play(scenario: &Scenario, rules: Rules, seed: u64, trace: bool) -> Run {
    let mut random = Random::new(seed);
    let mut plan = (scenario.plan)(&mut random);
    if scenario.early_release {
        plan = plan.early_at_random(&mut random);
    }
    let world = Rc::new(RefCell::new(beginning(&plan, rules, seed)));
    if trace {
        world.borrow_mut().start_trace();
        let indexes = plan.indexes.iter().map(|index| format!("{index:?}"));
        for line in indexes.chain([format!("rows (a, b): {:?}", plan.rows)]) {
            world.borrow_mut().say(|| line);
        }
    }
    let mut steps = 0;
    let mut end = End::AllDone;
    let mut generation = &plan.actors;
    for next in plan.after_crashes.iter().map(Some).chain([None]) {
        let tasks =
            generation.iter().enumerate().map(|(id, plan)| task(&world, id, plan)).collect();
        let crash_at = next.map(|_| random.below(plan.crash_within) as u64);
        let stop = |step| crash_at.is_some_and(|at| step >= at);
        end = scheduler::run(&world, tasks, &mut random, &mut steps, stop);
        let Some(next) = next else { break };
        if end == End::Violation || end == End::Unfinished {
            break;
        }
        world.borrow_mut().crash(&mut random);
        world.borrow_mut().end_step();
        generation = next;
    }
    if end == End::AllDone {
        end = quiet(&world, &mut random, &mut steps);
    }
    let mut world = world.borrow_mut();
    Run {
        steps,
        unfinished: end == End::Unfinished,
        events: world.events,
        violation: world.violation.clone(),
        trace: world.take_trace(),
    }
}

/// Checks the quiet state: vacuum passes, and nothing unneeded may be left.
fn quiet(world: &Rc<RefCell<World>>, random: &mut Random, steps: &mut u64) -> End {
    loop {
        let actor = Actor::new(world, 0);
        let work = Box::pin(vacuum(actor.clone(), 3));
        let tasks = vec![Task { name: "last vacuum".to_owned(), actor, work }];
        let end = scheduler::run(world, tasks, random, steps, |_| false);
        if end != End::AllDone {
            return end;
        }
        let mut world = world.borrow_mut();
        world.check_quiet();
        let slots = &mut world.transactions.slots;
        if slots.iter().all(|slot| *slot == Slot::Empty) {
            return End::AllDone;
        }
        // A second time, without the snapshots that were held to the end.
        slots.fill(Slot::Empty);
    }
}

fn beginning(plan: &Plan, rules: Rules, seed: u64) -> World {
    let phase = |n: usize| if n < 2 || plan.third_valid { Phase::Valid } else { Phase::Absent };
    let indexes = plan.indexes.iter().enumerate();
    let indexes = indexes.map(|(n, definition)| Index::new(*definition, phase(n))).collect();
    let generations = plan.after_crashes.iter().chain([&plan.actors]);
    let slots = generations.map(Vec::len).max().unwrap_or(0);
    let mut world = World::new(rules, Random::new(!seed), slots, indexes);
    world.leaf_capacity = plan.leaf_capacity;
    world.early_release = plan.early_release;
    let mut writes = Writes::new();
    for (offset, (a, b)) in (0..).zip(&plan.rows) {
        let row = world.oracle.new_row();
        let values = Values { a: *a, b: *b, serial: 1 };
        let version = Version {
            row,
            values,
            xmin: 0,
            cmin: 0,
            xmax: None,
            cmax: 0,
            locker: None,
            link: None,
            heap_only: false,
            root: offset,
        };
        let tid = Tid::on(0, offset);
        *world.pointer_mut(tid) = LinePointer {
            state: State::Normal(version),
            mixed: Mixed::No,
            moved_in: false,
            born: 0,
            incarnation: 0,
        };
        for index in 0..world.indexes.len() {
            let definition = world.indexes[index].definition;
            let key = definition.key(&values).filter(|_| phase(index) == Phase::Valid);
            if let Some(key) = key {
                let leaf = world.indexes[index].descend((key, tid));
                world.put_entry(index, leaf, entry(key, tid, definition.payload(&values)));
            }
        }
        writes.insert(row, Write { now: Some(values), base: 0 });
    }
    world.oracle_commit(1, &writes);
    if !plan.after_crashes.is_empty() {
        world.keep_log();
    }
    world
}

fn task(world: &Rc<RefCell<World>>, id: usize, plan: &ActorPlan) -> Task {
    let actor = Actor::new(world, id);
    let own = actor.clone();
    let (name, work): (&str, scheduler::Work) = match plan {
        ActorPlan::Session(plan) => ("session", Box::pin(session(own, plan.clone()))),
        ActorPlan::Pruner { rounds } => ("pruner", Box::pin(pruner(own, *rounds))),
        ActorPlan::Gardener { rounds } => ("gardener", Box::pin(gardener(own, *rounds))),
        ActorPlan::Tender { rounds } => ("tender", Box::pin(tender(own, *rounds))),
        ActorPlan::Dropper { rounds } => ("dropper", Box::pin(dropper(own, *rounds))),
        ActorPlan::Deleter { rounds } => ("deleter", Box::pin(deleter(own, *rounds))),
        ActorPlan::Vacuum { passes } => ("vacuum", Box::pin(vacuum(own, *passes))),
        ActorPlan::OldReader { held } => ("old reader", Box::pin(old_reader(own, *held))),
        ActorPlan::Worker { leader } => ("worker", Box::pin(worker(own, *leader))),
        ActorPlan::Build => ("build", Box::pin(build(own, 2))),
        ActorPlan::Writer { rounds } => ("writer", Box::pin(writer(own, *rounds))),
        ActorPlan::FailingDevice => ("failing device", Box::pin(failing_device(own))),
    };
    Task { name: format!("{name} {id}"), actor, work }
}
