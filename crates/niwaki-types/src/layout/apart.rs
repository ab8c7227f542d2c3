//! Values that do not stand in their row as they are: compressed there, or out of line.
//!
//! Only values of variable length are stored so, and only of types that may be long
//! ([`can_be_apart`]). The bytes that are compressed, or stored elsewhere, are the value's
//! **image**: its stored form without the length header.

use std::borrow::Cow;

use super::value::{self, Cursor};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;

/// Longest image of a value, in bytes: a byte less than a gibibyte.
pub const IMAGE_MAX: usize = crate::work::charge::VALUE_BYTES_MAX;

/// Compression method of the bytes of an image. Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// One block of lz4, without its own length.
    Lz4 = 1,
}

impl Compression {
    fn from_number(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Lz4),
            other => Err(TypeError::corrupt(format!(
                "stored value has the unknown compression method {other}"
            ))),
        }
    }
}

/// The pointer in a row to an out-of-line value. Block, offset and transaction are numbers that get
/// a meaning from the layers above. Together they name one value for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePointer {
    /// Compression method of the stored bytes.
    pub compression: Compression,
    /// Bytes of the image.
    pub raw_length: u32,
    /// Bytes that are stored.
    pub stored_length: u32,
    /// Transaction that stored them.
    pub xid: u64,
    /// Block of the first piece.
    pub block: u32,
    /// Line pointer of the first piece on that block.
    pub offset: u16,
}

impl ValuePointer {
    /// Bytes of a pointer.
    pub const SIZE: usize = 23;
    /// Bytes of a pointer in a row.
    pub const SIZE_IN_ROW: usize = Self::SIZE + 2;

    /// Returns the bytes of the pointer.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let fields: [&[u8]; 6] = [
            &[self.compression as u8],
            &self.raw_length.to_le_bytes(),
            &self.stored_length.to_le_bytes(),
            &self.xid.to_le_bytes(),
            &self.block.to_le_bytes(),
            &self.offset.to_le_bytes(),
        ];
        for (place, byte) in bytes.iter_mut().zip(fields.concat()) {
            *place = byte;
        }
        bytes
    }

    /// Reads [`ValuePointer::to_bytes`].
    ///
    /// # Errors
    /// `XX001` when the bytes are no pointer, or its lengths are impossible.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = || TypeError::corrupt("a pointer to a value out of line is damaged");
        let mut cursor = Cursor::new(bytes);
        let [method] = cursor.take()?;
        let pointer = Self {
            compression: Compression::from_number(method)?,
            raw_length: u32::from_le_bytes(cursor.take()?),
            stored_length: u32::from_le_bytes(cursor.take()?),
            xid: u64::from_le_bytes(cursor.take()?),
            block: u32::from_le_bytes(cursor.take()?),
            offset: u16::from_le_bytes(cursor.take()?),
        };
        if !cursor.is_empty() {
            return Err(wrong());
        }
        let (raw, stored) = (pointer.raw_length, pointer.stored_length);
        let lengths_fit = match pointer.compression {
            Compression::None => raw == stored,
            Compression::Lz4 => stored < raw,
        };
        if !lengths_fit || stored == 0 || usize::try_from(raw).map_or(true, |raw| raw > IMAGE_MAX) {
            return Err(wrong());
        }
        Ok(pointer)
    }
}

/// A compressed or out-of-line value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart<'a> {
    /// The row has the compressed image.
    Compressed {
        /// The compression method.
        compression: Compression,
        /// Bytes of the image.
        raw_length: u32,
        /// The compressed image.
        bytes: &'a [u8],
    },
    /// The row has a pointer to the value (a TOAST pointer).
    OutOfLine(ValuePointer),
}

impl Apart<'_> {
    /// Returns the bytes that the value takes in a row.
    pub fn size_in_row(&self) -> usize {
        match self {
            Self::Compressed { bytes, .. } => compressed_size_in_row(bytes.len()),
            Self::OutOfLine(_) => ValuePointer::SIZE_IN_ROW,
        }
    }
}

/// Bytes before a compressed image that its length header counts: the method, the length of the
/// image.
pub(super) const COMPRESSED_HEAD: usize = 5;

/// Returns the bytes in a row of a compressed image of `bytes` bytes.
pub fn compressed_size_in_row(bytes: usize) -> usize {
    size_in_row(bytes.saturating_add(COMPRESSED_HEAD)).saturating_add(1)
}

/// Returns the bytes in a row of an uncompressed image of `image_bytes` bytes.
pub fn size_in_row(image_bytes: usize) -> usize {
    value::header_length(image_bytes).saturating_add(image_bytes)
}

/// Decides whether values of a type may be compressed or out of line.
pub fn can_be_apart(oid: TypeOid) -> bool {
    matches!(
        oid,
        TypeOid::TEXT
            | TypeOid::VARCHAR
            | TypeOid::BPCHAR
            | TypeOid::BYTEA
            | TypeOid::NUMERIC
            | TypeOid::JSON
            | TypeOid::JSONB
            | TypeOid::JSONPATH
    ) || oid.element().is_some()
        || oid.is_composite()
}

/// Returns the image of a value that [`can_be_apart`], and is not NULL.
///
/// # Panics
/// If the value is not of this type.
pub fn image(oid: TypeOid, value: &Datum) -> Cow<'_, [u8]> {
    match value {
        Datum::Text(text) => Cow::Borrowed(text.as_bytes()),
        Datum::Bytea(bytes) => Cow::Borrowed(bytes),
        _ => {
            let mut stored = Vec::new();
            value::write(oid, value, &mut stored);
            let length = Cursor::new(&stored).take_raw(oid).map_or(0, <[u8]>::len);
            let header = stored.len().saturating_sub(length);
            stored.drain(..header);
            Cow::Owned(stored)
        }
    }
}

/// Returns the value that has this image.
///
/// # Errors
/// `XX001` when no value of the type has it.
pub fn value_of_image(oid: TypeOid, image: &[u8]) -> Result<Datum> {
    value::read_image(oid, image)
}

/// Compresses an image. `None` if that does not save anything, or the image is longer than
/// [`IMAGE_MAX`].
pub fn compress(image: &[u8]) -> Option<Vec<u8>> {
    if image.len() > IMAGE_MAX {
        return None;
    }
    let compressed = lz4_flex::block::compress(image);
    (compressed.len() < image.len()).then_some(compressed)
}

/// Returns the image of `raw_length` bytes from its stored bytes.
///
/// # Errors
/// `XX001` when these are not the bytes that were stored.
pub fn decompress(
    compression: Compression,
    raw_length: u32,
    bytes: Cow<'_, [u8]>,
) -> Result<Cow<'_, [u8]>> {
    let wrong = |what: &str| TypeError::corrupt(format!("a compressed value {what}"));
    let length = usize::try_from(raw_length).map_err(|_| wrong("is too long"))?;
    match compression {
        Compression::None if bytes.len() == length => Ok(bytes),
        Compression::None => Err(wrong("that is not compressed has another length")),
        Compression::Lz4 => {
            // A byte of lz4 stands for at most 255 bytes, so a damaged length asks for no more
            // memory than that.
            let most = bytes.len().saturating_mul(255);
            if length > IMAGE_MAX || length > most {
                return Err(wrong("claims to be longer than it can be"));
            }
            let mut image = vec![0; length];
            match lz4_flex::block::decompress_into(&bytes, &mut image) {
                Ok(written) if written == length => Ok(Cow::Owned(image)),
                Ok(_) => Err(wrong("is shorter than it says")),
                Err(_) => Err(wrong("is damaged")),
            }
        }
    }
}

/// Reads the bytes behind the first byte of a compressed value.
pub(super) fn read_compressed<'a>(cursor: &mut Cursor<'a>) -> Result<Apart<'a>> {
    let wrong = || TypeError::corrupt("a compressed value ends in its header");
    let (head, bytes) =
        cursor.take_counted()?.split_first_chunk::<COMPRESSED_HEAD>().ok_or_else(wrong)?;
    let [method, r0, r1, r2, r3] = *head;
    let compression = Compression::from_number(method)?;
    if compression == Compression::None {
        return Err(TypeError::corrupt("a compressed value is not compressed"));
    }
    Ok(Apart::Compressed { compression, raw_length: u32::from_le_bytes([r0, r1, r2, r3]), bytes })
}
