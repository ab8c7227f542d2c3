//! Files that a killed process leaves.

use niwaki_env::Env;
use niwaki_env::vfs::OpenMode;

/// Returns a second environment with the same files, without the lock. Later writes of the first
/// one do not reach it.
pub(crate) fn copied(env: &Env) -> Env {
    let other = Env::memory();
    for dir in ["", "base", "wal"] {
        if !dir.is_empty() {
            other.vfs.create_dir(dir).unwrap();
        }
        for name in env.vfs.list(dir).unwrap() {
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if path == "lock" {
                continue;
            }
            let Ok(from) = env.vfs.open(&path, OpenMode::Existing) else { continue };
            let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
            let read = from.read_at(&mut bytes, 0).unwrap();
            assert_eq!(read, bytes.len());
            let to = other.vfs.open(&path, OpenMode::CreateNew).unwrap();
            to.write_at(&bytes, 0).unwrap();
        }
    }
    other
}
