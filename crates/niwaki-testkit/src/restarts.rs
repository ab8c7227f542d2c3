//! Failed syncs that end the process, followed by a restart on the same machine and a power loss.
//!
//! ```text
//!   commits, checkpoints -> the n-th sync fails -> restart: the system's memory has every write,
//!     and calls lost ones clean -> recovery [-> its m-th sync fails -> restart -> recovery]
//!     -> one more commit -> power loss: what only memory had is gone
//! ```
//!
//! Every sync of the run fails once, of files and of folders. Every write of the control file stops
//! in the middle once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, Operation};
use niwaki_env::{Crashed, Env};
use niwaki_storage::CheckpointKind;

use crate::model::{Key, Rows};
use crate::pages::Pages;

/// Commits of a run, and how many lie between two checkpoints and between two cuts.
const COMMITS: u32 = 40;
const CHECKPOINT_EVERY: u32 = 9;
const CUT_EVERY: u32 = 14;
/// Number of syncs of a recovery that fail in turn.
const SYNCS_OF_RECOVERY: u64 = 4;
/// Images of a power loss.
const IMAGES: usize = 3;

/// Commits and definitions that a run has promised.
#[derive(Clone, Default)]
struct Promise {
    /// Rows whose commit was acknowledged.
    acknowledged: Rows,
    /// The acknowledged rows with the commit that was under way.
    attempted: Rows,
}

impl Promise {
    fn check(&self, rows: &Rows) -> Result<(), String> {
        if *rows == self.acknowledged || *rows == self.attempted {
            return Ok(());
        }
        Err(format!("acknowledged {:?}, found {rows:?}", self.acknowledged))
    }
}

fn open(vfs: &FaultyVfs, full_page_writes: bool) -> Result<Pages, String> {
    let env = Env::simulated(Arc::new(vfs.clone()), 1);
    Pages::open(env, full_page_writes).map_err(|error| error.to_string())
}

fn commit(pages: &Pages, number: u32, promise: &Mutex<Promise>) -> Result<(), String> {
    let key = Key::from(number) % 17;
    let value = i64::from(number);
    let set = |promise: &Mutex<Promise>, which: fn(&mut Promise) -> &mut Rows| {
        which(&mut promise.lock().expect("no thread panics with it")).insert(key, value);
    };
    set(promise, |promise| &mut promise.attempted);
    let rows = BTreeMap::from([(key, Some(value))]);
    pages.commit(&rows, number).map_err(|error| error.to_string())?;
    set(promise, |promise| &mut promise.acknowledged);
    Ok(())
}

fn run(vfs: &FaultyVfs, images: bool, promise: &Mutex<Promise>) -> Result<(), String> {
    let pages = open(vfs, images)?;
    for number in 1..=COMMITS {
        commit(&pages, number, promise)?;
        if number % CUT_EVERY == 0 {
            pages.cut(number).map_err(|error| error.to_string())?;
        }
        if number % CHECKPOINT_EVERY == 0 {
            let kind = CheckpointKind::Requested;
            pages.storage().checkpoint(kind, &[]).map_err(|error| error.to_string())?;
        }
    }
    pages.storage().shutdown(&[]).map_err(|error| error.to_string())?;
    Ok(())
}

/// Runs `work` until it is done or the process ends.
pub(crate) fn until_the_end(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) if payload.is::<Crashed>() => Ok(()),
        Err(payload) => Err(crate::crash::describe(&*payload)),
    }
}

fn fail(vfs: &FaultyVfs, operation: Operation, after: u64) {
    let kind = FaultKind::SyncLosesBytes;
    vfs.inject(Fault { kind, operation, path_contains: String::new(), after, sticky: false });
}

/// Lets each sync of a run fail, restarts in the same world, and takes the power away.
///
/// # Errors
/// A promise that is not kept.
pub fn every_failed_sync() -> Result<(), String> {
    for images in [true, false] {
        let calm = FaultyVfs::new();
        run(&calm, images, &Mutex::new(Promise::default()))?;
        let counts = calm.counts();
        for operation in [Operation::SyncData, Operation::SyncDir] {
            for after in 0..counts.get(&operation).copied().unwrap_or(0) {
                for second in (0..SYNCS_OF_RECOVERY).map(Some).chain([None]) {
                    one(images, operation, after, second).map_err(|error| {
                        format!(
                            "{operation:?} {after} failed, of recovery {second:?}, images of \
                             pages: {images}: {error}"
                        )
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn one(images: bool, operation: Operation, after: u64, second: Option<u64>) -> Result<(), String> {
    let world = FaultyVfs::new();
    let promise = Mutex::new(Promise::default());
    fail(&world, operation, after);
    // Making a new directory may fail without an end of the process. Nothing is promised then.
    let ended = until_the_end(|| run(&world, images, &promise));
    let promise = promise.into_inner().expect("no thread panics with it");
    if promise.attempted.is_empty() {
        return Ok(());
    }
    ended?;
    goes_on(world.restarted(), images, promise, second, after)
}

/// Lets each write of the control file stop in the middle: its earlier content still counts. Then
/// restarts in the same world, and takes the power away.
///
/// # Errors
/// A promise that is not kept.
pub fn every_torn_control() -> Result<(), String> {
    for images in [true, false] {
        // Ends: with the run that has no such write any more.
        for after in 0.. {
            let world = FaultyVfs::new();
            let promise = Mutex::new(Promise::default());
            let (kind, operation) = (FaultKind::ShortWrite, Operation::Write);
            let path_contains = "control".to_owned();
            world.inject(Fault { kind, operation, path_contains, after, sticky: false });
            let mut undisturbed = false;
            let ended = until_the_end(|| {
                run(&world, images, &promise)?;
                undisturbed = true;
                Ok(())
            });
            if let Err(error) = ended
                && !error.contains("control file")
            {
                return Err(error);
            }
            world.heal();
            let promise = promise.into_inner().expect("no thread panics with it");
            if !promise.attempted.is_empty() {
                let what = format!("write {after} of the control file, images of pages: {images}");
                goes_on(world.restarted(), images, promise, None, after)
                    .map_err(|error| format!("{what}: {error}"))?;
            }
            if undisturbed {
                break;
            }
        }
    }
    Ok(())
}

/// Restarts in a world, where a sync of the recovery may fail too, commits once more, and takes the
/// power away.
fn goes_on(
    mut world: FaultyVfs,
    images: bool,
    mut promise: Promise,
    second: Option<u64>,
    seed: u64,
) -> Result<(), String> {
    if let Some(second) = second {
        fail(&world, Operation::SyncData, second);
        until_the_end(|| open(&world, images).map(drop))?;
        world = world.restarted();
    }
    let rows = Mutex::new(Promise::default());
    until_the_end(|| {
        let pages = open(&world, images)?;
        let found = pages.rows().map_err(|error| error.to_string())?;
        promise.check(&found)?;
        // A client may have seen these rows, so they must last.
        promise = Promise { acknowledged: found.clone(), attempted: found };
        pages.check_numbers()?;
        *rows.lock().expect("no thread panics with it") = promise.clone();
        let number = pages.last_commit().map_err(|error| error.to_string())? + 1;
        commit(&pages, number, &rows)
    })?;
    let promise = rows.into_inner().expect("no thread panics with it");
    world.crash();
    let options = CrashOptions { images_max: IMAGES, seed, ..CrashOptions::default() };
    for image in world.crash_images(&options) {
        let after_loss = || -> Result<(), String> {
            let pages = open(&FaultyVfs::from_memory(&image.vfs), images)?;
            promise.check(&pages.rows().map_err(|error| error.to_string())?)?;
            pages.check()?;
            pages.check_numbers()
        };
        after_loss().map_err(|error| format!("after the power loss: {error}"))?;
    }
    Ok(())
}
