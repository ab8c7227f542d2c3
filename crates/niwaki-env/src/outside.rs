//! Files that do not belong to a database: read or written once, from beginning to end (COPY).

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

fn refuse_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

/// Opens a file to read its bytes.
///
/// # Errors
/// `IsADirectory`; any error of the system.
pub fn open_to_read(path: &Path) -> io::Result<Box<dyn Read>> {
    refuse_folder(path)?;
    Ok(Box::new(File::open(path)?))
}

/// Opens a file to write: a new file, or an old one that is overwritten. The last bytes are in the
/// file after a flush; nothing is synced.
///
/// # Errors
/// `IsADirectory`; any error of the system.
pub fn open_to_write(path: &Path) -> io::Result<Box<dyn Write>> {
    refuse_folder(path)?;
    Ok(Box::new(BufWriter::new(File::create(path)?)))
}
