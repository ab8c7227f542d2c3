//! Crash images of a random workload, each recovered and compared with the model.
//!
//! One run of the workload is recorded. The machine may stop at each moment between two changes of
//! the disk. For each moment, some of the states that a crash may leave are built and opened. Every
//! few images, recovery itself is recorded, and stopped at its moments in turn.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::vfs::{CrashImage, CrashOptions, FaultyVfs, MemoryVfs, Vfs};
use niwaki_env::{Crashed, Env};

use crate::model::{Model, Step};
use crate::tested_database::TestedDatabase;
use crate::workload::{Mix, Workload};

/// Number of disk changes that a failure lists.
const RECENT_CHANGES: usize = 40;

/// Parameters of a crash run.
#[derive(Clone, Copy, Debug)]
pub struct CrashPlan {
    /// The test target that runs it (`--test`), for the line that repeats a failure.
    pub suite: &'static str,
    /// Determines the workload and the choice of images.
    pub seed: u64,
    /// Statements of the workload.
    pub steps: usize,
    /// The mix of these statements.
    pub mix: Mix,
    /// The machine stops at one of every `moments_every` moments; at least 1.
    pub moments_every: usize,
    /// Largest number of images of each moment.
    pub images_per_moment: usize,
    /// Lets the part by which a file grew hold old bytes of that file
    /// ([`CrashOptions::stale_bytes`]).
    pub stale_bytes: bool,
    /// Recovery is crashed too on one of every `second_crash_every` images; 0 for never.
    pub second_crash_every: usize,
    /// Largest number of images of each moment of a crashed recovery.
    pub images_per_recovery_moment: usize,
    /// Number of statements executed on some recovered images, to test that they can go on.
    pub steps_after: usize,
    /// Makes creating the database part of what may be interrupted.
    pub from_nothing: bool,
    /// Lets the log hold a full-page image of each page at its first change after a checkpoint.
    /// Without these images no write is torn: the setting requires this from the disk.
    pub full_page_writes: bool,
}

impl Default for CrashPlan {
    fn default() -> Self {
        Self {
            suite: "harness",
            seed: 0,
            steps: 60,
            mix: Mix::default(),
            moments_every: 1,
            images_per_moment: 12,
            stale_bytes: false,
            second_crash_every: 40,
            images_per_recovery_moment: 3,
            steps_after: 12,
            from_nothing: false,
            full_page_writes: true,
        }
    }
}

/// Counts of a crash run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Moments at which the machine was stopped.
    pub moments: usize,
    /// Images opened, including the images of a second crash.
    pub images: usize,
    /// Images of a crash during recovery.
    pub second_images: usize,
    /// Transactions the workload committed.
    pub commits: usize,
    /// Images on which the workload went on.
    pub continued: usize,
}

impl CrashReport {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        self.moments += other.moments;
        self.images += other.images;
        self.second_images += other.second_images;
        self.commits += other.commits;
        self.continued += other.continued;
    }
}

/// A state after which the database was wrong.
#[derive(Clone, Debug)]
pub struct CrashFailure {
    /// The test target of the plan.
    pub suite: &'static str,
    /// The seed of the plan.
    pub seed: u64,
    /// Number of changes the disk had seen, and the number during recovery.
    pub moment: (usize, Option<usize>),
    /// The rows that survived.
    pub survivors: String,
    /// The last changes of the disk before the moment, oldest first.
    pub recent: Vec<String>,
    /// A description of the fault.
    pub detail: String,
}

impl fmt::Display for CrashFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "crash image is wrong: {}", self.detail)?;
        write!(f, "  after change {}", self.moment.0)?;
        if let Some(second) = self.moment.1 {
            write!(f, " and change {second} of recovery")?;
        }
        writeln!(f, "; survivors: {}; last changes:", self.survivors)?;
        for change in &self.recent {
            writeln!(f, "    {change}")?;
        }
        write!(
            f,
            "  again: NIWAKI_CRASH_SEED={} cargo test -p niwaki-testkit --test {}",
            self.seed, self.suite
        )
    }
}

/// A commit of the workload, with the numbers of disk changes when it began and when it was
/// acknowledged.
#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    began: usize,
    acknowledged: usize,
}

/// Runs the workload of `plan` and every crash image the plan asks for.
///
/// # Errors
/// The first image after which the database is wrong.
pub fn run<S: TestedDatabase>(plan: &CrashPlan) -> Result<CrashReport, Box<CrashFailure>> {
    let disk = FaultyVfs::new();
    let fail = |detail| Box::new(at(plan, (0, None), "the workload itself", detail));
    if !plan.from_nothing {
        let prepared =
            guarded(|| S::open(world(disk.clone(), plan.seed), plan.full_page_writes).map(drop));
        prepared.map_err(fail)?;
    }
    disk.record();
    let base = disk.changes();
    let (model, commits) = workload::<S>(plan, &disk, base).map_err(fail)?;

    let history = disk.history().expect("recording was on");
    let mut replay = history.replay();
    let mut run = Run { plan, model: &model, commits: &commits, report: CrashReport::default() };
    run.report.commits = model.commits();
    let seeds = SeededRng::new(plan.seed ^ 0xc4a5_4000);
    // There is one more moment than changes: before the first and after each.
    loop {
        if replay.done() % plan.moments_every != 0 {
            if replay.step().is_none() {
                return Ok(run.report);
            }
            continue;
        }
        run.report.moments += 1;
        let options = CrashOptions {
            images_max: plan.images_per_moment,
            seed: seeds.next_u64(),
            stale_bytes: plan.stale_bytes,
            torn_writes: plan.full_page_writes,
        };
        for image in replay.images(&options) {
            run.image::<S>(&image, replay.done()).map_err(|mut failure| {
                let mut recent = replay.recent(RECENT_CHANGES);
                recent.append(&mut failure.recent);
                failure.recent = recent;
                failure
            })?;
        }
        if replay.step().is_none() {
            return Ok(run.report);
        }
    }
}

struct Run<'a> {
    plan: &'a CrashPlan,
    model: &'a Model,
    commits: &'a [Acknowledgement],
    report: CrashReport,
}

impl Run<'_> {
    fn image<S: TestedDatabase>(
        &mut self,
        image: &CrashImage,
        moment: usize,
    ) -> Result<(), Box<CrashFailure>> {
        let number = self.report.images;
        self.report.images += 1;
        let second = self.plan.second_crash_every;
        if second > 0 && number % second == second - 1 {
            return self.crash_recovery::<S>(image, moment);
        }
        let goes_on = self.plan.steps_after > 0 && number % 16 == 7;
        self.report.continued += usize::from(goes_on);
        self.verify::<S>(image.vfs.fork(), moment, goes_on)
            .map_err(|detail| Box::new(at(self.plan, (moment, None), &image.survivors, detail)))
    }

    /// Records a recovery, then opens the states that crashes at its moments leave.
    fn crash_recovery<S: TestedDatabase>(
        &mut self,
        image: &CrashImage,
        moment: usize,
    ) -> Result<(), Box<CrashFailure>> {
        let disk = FaultyVfs::from_memory(&image.vfs);
        disk.record();
        self.verify::<S>(disk.clone(), moment, false)
            .map_err(|detail| Box::new(at(self.plan, (moment, None), &image.survivors, detail)))?;
        let history = disk.history().expect("recording was on");
        let mut replay = history.replay();
        let seeds = SeededRng::new(self.plan.seed ^ moment as u64);
        while replay.step().is_some() {
            let options = CrashOptions {
                images_max: self.plan.images_per_recovery_moment,
                seed: seeds.next_u64(),
                stale_bytes: self.plan.stale_bytes,
                torn_writes: self.plan.full_page_writes,
            };
            for second in replay.images(&options) {
                self.report.images += 1;
                self.report.second_images += 1;
                self.verify::<S>(second.vfs.fork(), moment, false).map_err(|detail| {
                    let survivors = format!("{}, then {}", image.survivors, second.survivors);
                    let mut failure =
                        at(self.plan, (moment, Some(replay.done())), &survivors, detail);
                    failure.recent.push("recovery:".to_owned());
                    failure.recent.append(&mut replay.recent(RECENT_CHANGES));
                    Box::new(failure)
                })?;
            }
        }
        Ok(())
    }

    /// Opens a disk and compares it with the model. Goes on with a workload if asked to.
    fn verify<S: TestedDatabase>(
        &self,
        disk: impl Vfs + 'static,
        moment: usize,
        goes_on: bool,
    ) -> Result<(), String> {
        let acknowledged = self.commits.partition_point(|commit| commit.acknowledged <= moment);
        let possible = self.commits.partition_point(|commit| commit.began <= moment);
        guarded(|| {
            let mut tested = S::open(world(disk, self.plan.seed), self.plan.full_page_writes)
                .map_err(|error| format!("the database does not open: {error}"))?;
            let rows = tested.rows().map_err(|error| format!("rows: {error}"))?;
            self.model.accept(&rows, acknowledged, possible)?;
            tested.check().map_err(|error| format!("check: {error}"))?;
            if goes_on {
                let mut model = Model::with_rows(&rows);
                let mix = Mix { sessions: 1, ..self.plan.mix };
                let mut workload = Workload::new(mix, moment as u64).with_values_from(1 << 40);
                follow(&mut tested, &mut model, &mut workload, self.plan.steps_after, |_| {})
                    .map_err(|error| format!("after recovery: {error}"))?;
                tested.check().map_err(|error| format!("check after going on: {error}"))?;
            }
            Ok(())
        })
    }
}

fn workload<S: TestedDatabase>(
    plan: &CrashPlan,
    disk: &FaultyVfs,
    base: u64,
) -> Result<(Model, Vec<Acknowledgement>), String> {
    let now = || usize::try_from(disk.changes() - base).expect("a short workload");
    guarded(|| {
        let mut tested = S::open(world(disk.clone(), plan.seed), plan.full_page_writes)?;
        let mut model = Model::new();
        let mut workload = Workload::new(plan.mix, plan.seed);
        let mut commits = Vec::new();
        let mut began = now();
        follow(&mut tested, &mut model, &mut workload, plan.steps, |committed| {
            if committed {
                commits.push(Acknowledgement { began, acknowledged: now() });
            }
            began = now();
        })?;
        Ok((model, commits))
    })
}

/// Executes statements on both sides and compares the answers. Calls `done` after each statement,
/// with whether it made a commit.
///
/// # Errors
/// The first difference.
pub fn follow<S: TestedDatabase>(
    tested: &mut S,
    model: &mut Model,
    workload: &mut Workload,
    steps: usize,
    mut done: impl FnMut(bool),
) -> Result<(), String> {
    let trace = std::env::var_os("NIWAKI_TRACE").is_some();
    for number in 0..steps {
        let (session, step) = workload.next(model);
        if trace {
            eprintln!("step {number}, session {session}: {step:?}");
        }
        let answer = tested
            .step(session, &step)
            .map_err(|error| format!("step {number}, session {session}, {step:?}: {error}"))?;
        let (expected, commit) = model.apply(session, &step);
        done(commit.is_some());
        if answer != expected {
            return Err(format!(
                "step {number}, session {session}, {step:?}: answered {answer:?}, must be {expected:?}"
            ));
        }
        if step == Step::Vacuum || step == Step::Checkpoint {
            tested.check().map_err(|error| format!("check after {step:?}: {error}"))?;
        }
    }
    Ok(())
}

fn world(disk: impl Vfs + 'static, seed: u64) -> Env {
    Env::simulated(Arc::new(disk), seed)
}

/// Opens `files` in a simulated world; for suites that make their own images.
pub fn world_of(files: &MemoryVfs, seed: u64) -> Env {
    world(files.fork(), seed)
}

fn at(
    plan: &CrashPlan,
    moment: (usize, Option<usize>),
    survivors: &str,
    detail: String,
) -> CrashFailure {
    let survivors = survivors.to_owned();
    CrashFailure {
        suite: plan.suite,
        seed: plan.seed,
        moment,
        survivors,
        recent: Vec::new(),
        detail,
    }
}

/// Turns a panic into a failure like any other.
fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(describe(&*payload)))
}

/// Returns the text of a panic.
pub fn describe(payload: &(dyn Any + Send)) -> String {
    if let Some(crashed) = payload.downcast_ref::<Crashed>() {
        return format!("the process ended: {}", crashed.reason);
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("(no text)"))
}
