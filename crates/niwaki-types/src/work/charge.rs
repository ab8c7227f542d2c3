//! Memory of a value, charged before it is taken.

use crate::error::{Result, TypeError};
use crate::work;

/// Longest value, in bytes with its length: a byte less than a gibibyte, as in PostgreSQL.
pub const VALUE_BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of the length that a value is stored with.
const LENGTH_BYTES: usize = 4;

/// Longest text or byte string, in bytes.
pub const TEXT_BYTES_MAX: usize = VALUE_BYTES_MAX - LENGTH_BYTES;

/// Size in bytes from which memory is asked for before it is taken, and not only afterwards.
const LARGE_BYTES: usize = 64 << 10;

/// Asks for room for a part of a value, if it is large.
#[inline]
pub(crate) fn ask_for(bytes: usize) -> Result<()> {
    if bytes >= LARGE_BYTES { Ok(niwaki_env::memory::room(bytes)?) } else { Ok(()) }
}

/// Asks for room where a buffer of `capacity` bytes, `length` of them in use, must grow for `more`.
/// The buffer doubles then. Its bytes exist twice while they are copied.
///
/// # Errors
/// `53200` where there is no memory.
#[inline]
pub fn ask_to_grow(capacity: usize, length: usize, more: usize) -> Result<()> {
    let wanted = length.saturating_add(more);
    if wanted <= capacity { Ok(()) } else { ask_for(wanted.max(capacity.saturating_mul(2))) }
}

/// Charges `count` parts of `part_bytes` each, which are copied at once, without their contents.
///
/// # Errors
/// `53200` where there is no memory, and the errors that end the statement.
#[inline]
pub fn charge_parts(count: usize, part_bytes: usize) -> Result<()> {
    let bytes = count.saturating_mul(part_bytes);
    work::tick(bytes)?;
    ask_for(bytes)
}

/// The bytes of a value that is being built, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charge {
    pub(crate) bytes: usize,
}

impl Charge {
    /// Returns the charge of a value of `bytes` bytes.
    pub fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Charges `more` bytes, before they are taken.
    ///
    /// # Errors
    /// `54000` where the value would be longer than a value may be, `53200` where there is no
    /// memory.
    #[inline]
    pub fn add(&mut self, more: usize) -> Result<()> {
        work::tick(more)?;
        let bytes = self.bytes.saturating_add(more);
        if bytes > TEXT_BYTES_MAX && !niwaki_env::seeded_bug!("value_uncharged") {
            return Err(too_long(self.bytes, more));
        }
        ask_for(more)?;
        self.bytes = bytes;
        Ok(())
    }
}

#[cold]
fn too_long(bytes: usize, more: usize) -> TypeError {
    TypeError::new("54000", "out of memory").with_detail(format!(
        "Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes."
    ))
}

/// Charges a value whose length is known before it is built.
///
/// # Errors
/// As [`Charge::add`], with PostgreSQL's words for memory that is asked for at once.
#[inline]
pub fn charge_whole(bytes: usize) -> Result<()> {
    work::tick(bytes)?;
    if bytes > TEXT_BYTES_MAX {
        let bytes = bytes.saturating_add(LENGTH_BYTES);
        return Err(TypeError::new("54000", format!("invalid memory alloc request size {bytes}")));
    }
    ask_for(bytes)
}

/// Charges `more` bytes of a value that already has some.
///
/// # Errors
/// As [`Charge::add`].
#[inline]
pub fn charge_more(bytes: usize, more: usize) -> Result<()> {
    Charge { bytes }.add(more)
}
