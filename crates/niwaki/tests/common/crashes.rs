//! Crash images of a test's disk.

use std::sync::Arc;

use niwaki_env::vfs::{CrashOptions, FaultyVfs, Vfs};

/// Calls `test` with the possible disks after a crash at each recorded change that `wanted`
/// selects. The arguments are the number of the change, a description, and the disk. Returns the
/// number of images.
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
