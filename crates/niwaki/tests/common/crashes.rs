//! Crash images of what a test did to its disk.

use std::sync::Arc;

use niwaki_env::vfs::{CrashOptions, FaultyVfs, Vfs};

/// Calls `test` with what a crash may have left of a disk that was recorded, at those changes that `wanted` says: the number of the change, what
/// to say of it, and the disk. Returns how many images that were.
pub(crate) fn each_image(
    recorded: &FaultyVfs,
    wanted: impl Fn(u64) -> bool,
    mut test: impl FnMut(u64, &str, Arc<dyn Vfs>),
) -> u64 {
    let history = recorded.history().unwrap();
    let mut replay = history.replay();
    let mut images = 0;
    while let Some(operation) = replay.step() {
        let at = replay.done() as u64;
        if !wanted(at) {
            continue;
        }
        let options = CrashOptions { images_max: 2, seed: at, ..CrashOptions::default() };
        for image in replay.images(&options) {
            images += 1;
            let what = format!("after change {at} ({operation:?}), kept {}", image.survivors);
            test(at, &what, Arc::new(image.vfs));
        }
    }
    images
}
