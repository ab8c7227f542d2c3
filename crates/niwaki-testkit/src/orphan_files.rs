//! Files that the catalog does not name, and a catalog that names nothing.
//!
//! Nothing is removed without a word, and nothing is made anew in its place.

use std::sync::Arc;

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};
use niwaki_storage::page::PAGE_SIZE;

type Result<T> = std::result::Result<T, String>;

/// Offsets of the two slots of the control file, and the number of bytes that all versions know.
const SLOTS: [u64; 2] = [0, 4096];
const SLOT_BYTES: usize = 96;

fn say(error: impl ToString) -> String {
    error.to_string()
}

fn open(vfs: &MemoryVfs) -> Result<Database> {
    let env = Env { vfs: Arc::new(vfs.fork()), ..Env::memory() };
    Database::open_with(env, Options::new().small_files(true)).map_err(say)
}

/// Returns a directory with a table of one row, killed behind a checkpoint.
fn killed() -> Result<MemoryVfs> {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
    let database = Database::open_with(env, Options::new().small_files(true)).map_err(say)?;
    for sql in ["create table t (i int primary key)", "insert into t values (1)"] {
        database.session().execute(sql, ()).map_err(say)?;
    }
    database.checkpoint().map_err(say)?;
    Ok(vfs.fork())
}

/// Requires that a file of rows that nothing names is kept, in `aside/`.
///
/// # Errors
/// The file is gone, or still in its old place.
pub fn nothing_goes_unsaid() -> Result<()> {
    let vfs = Arc::new(killed()?);
    let stray = vfs.open("base/9999.main", OpenMode::CreateNew).map_err(say)?;
    stray.write_at(&[7; 100], 0).map_err(say)?;
    let env = Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() };
    Database::open_with(env, Options::new().small_files(true)).map_err(say)?;
    let is_there = |path: &str| vfs.exists(path).map_err(say);
    match (is_there("base/9999.main")?, is_there("aside/9999.main")?) {
        (false, true) => Ok(()),
        (stays, aside) => Err(format!("it stays: {stays}, it was moved aside: {aside}")),
    }
}

/// Requires that a zeroed catalog does not count as a new directory. Without the table of files, as
/// in a directory of an older version, a catalog of zeros reads as an empty one.
///
/// # Errors
/// The directory is opened, or files of it are gone.
pub fn no_catalog_is_filled_again() -> Result<()> {
    let vfs = killed()?;
    let control = vfs.open("control", OpenMode::Existing).map_err(say)?;
    for at in SLOTS {
        let mut slot = [0; SLOT_BYTES];
        control.read_at(&mut slot, at).map_err(say)?;
        slot[76..80].fill(0);
        let crc = crc32c::crc32c(&slot[..92]);
        slot[92..].copy_from_slice(&crc.to_le_bytes());
        control.write_at(&slot, at).map_err(say)?;
        control.write_at(&[0; 12], at + SLOT_BYTES as u64).map_err(say)?;
    }
    for name in ["files.1", "files.2"] {
        vfs.remove(name).map_err(say)?;
    }
    open(&vfs).map_err(|error| format!("a directory of before does not open: {error}"))?;
    for number in 2..=4 {
        let file = vfs.open(&format!("base/{number}.main"), OpenMode::Existing).map_err(say)?;
        let blocks = file.len().map_err(say)? / PAGE_SIZE as u64;
        for block in 0..blocks {
            file.write_at(&[0; PAGE_SIZE], block * PAGE_SIZE as u64).map_err(say)?;
        }
    }
    match open(&vfs) {
        Ok(_) => Err("a catalog of zeros was filled as if the directory was new".to_owned()),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_nobody_names_stays() {
        super::nothing_goes_unsaid().unwrap();
    }

    #[test]
    fn an_empty_catalog_is_damage() {
        super::no_catalog_is_filled_again().unwrap();
    }
}
