//! Reads and writes the binary format of COPY: a header, rows of values behind their lengths, a
//! trailer.

use std::ops::Range;

use niwaki_types::{Datum, TextSettings, TypeOid, write_binary};

use super::input::CopyInput;
use crate::error::{Result, SqlError};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The field length that means NULL; as a row's count, the end of the data.
const NONE: i32 = -1;
/// Mask of the header flags that a reader must know; no such flag exists.
const CRITICAL_FLAGS: i32 = !0xffff;

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new("22P04", message)
}

/// Appends the header before the first row: no flags, no extension.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Appends the trailer after the last row.
pub(super) fn write_trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes());
}

/// Appends a row. No row can have a value longer than its length field can express.
pub(super) fn write_row(
    row: &[Datum],
    types: &[TypeOid],
    settings: &TextSettings,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&i16::try_from(row.len()).unwrap_or(i16::MAX).to_be_bytes());
    for (value, oid) in row.iter().zip(types) {
        let start = out.len();
        out.extend_from_slice(&NONE.to_be_bytes());
        if value.is_null() {
            continue;
        }
        write_binary(value, *oid, &settings.types, out);
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Takes `N` bytes from the front of `bytes`.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// Returns the length of the header at the front of `bytes`; `None` while it is incomplete.
fn header_length(bytes: &[u8]) -> Result<Option<usize>> {
    let mut rest = bytes;
    let Some(signature) = take(&mut rest) else { return Ok(None) };
    if signature != *SIGNATURE {
        return Err(wrong("COPY file signature not recognized"));
    }
    let Some(flags) = take(&mut rest).map(i32::from_be_bytes) else { return Ok(None) };
    if flags & CRITICAL_FLAGS != 0 {
        return Err(wrong("unrecognized critical flags in COPY file header"));
    }
    let Some(extension) = take(&mut rest).map(i32::from_be_bytes) else { return Ok(None) };
    let extension = usize::try_from(extension)
        .map_err(|_| wrong("invalid COPY file header (missing length)"))?;
    let length = bytes.len() - rest.len() + extension;
    Ok((length <= bytes.len()).then_some(length))
}

/// The item at the front of some bytes.
enum Next {
    /// A complete row with its length in bytes.
    Row(usize),
    Trailer,
    /// An incomplete row or trailer.
    Part,
}

fn next(bytes: &[u8]) -> Result<Next> {
    let mut rest = bytes;
    let Some(count) = take(&mut rest).map(i16::from_be_bytes) else { return Ok(Next::Part) };
    if i32::from(count) == NONE {
        return Ok(Next::Trailer);
    }
    // A lower count has no fields here; the caller refuses it as unexpected.
    for _ in 0..count {
        let Some(length) = take(&mut rest).map(i32::from_be_bytes) else { return Ok(Next::Part) };
        if length == NONE {
            continue;
        }
        let length = usize::try_from(length).map_err(|_| wrong("invalid field size"))?;
        let Some(after) = rest.get(length..) else { return Ok(Next::Part) };
        rest = after;
    }
    Ok(Next::Row(bytes.len() - rest.len()))
}

/// Returns the values of a row; `None` is NULL.
///
/// # Errors
/// 22P04 when the row does not have the expected number of values.
pub fn fields(row: &[u8], expected: usize) -> Result<Vec<Option<&[u8]>>> {
    let mut rest = row;
    let count = take(&mut rest).map_or(0, i16::from_be_bytes);
    if usize::try_from(count) != Ok(expected) {
        return Err(wrong(format!("row field count is {count}, expected {expected}")));
    }
    let field = |_| {
        let length = take(&mut rest).map_or(NONE, i32::from_be_bytes);
        let (value, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        rest = after;
        Some(value)
    };
    Ok((0..expected).map(field).collect())
}

impl CopyInput {
    /// Returns the next row; `None` after the last.
    pub(super) fn next_row(
        &mut self,
        fill: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<Range<usize>>> {
        loop {
            let pending = &self.buffer[self.start..];
            if self.headed {
                match next(pending)? {
                    Next::Row(length) => {
                        let range = self.start..self.start + length;
                        self.start = range.end;
                        self.line += 1;
                        return Ok(Some(range));
                    }
                    Next::Trailer => {
                        let end = self.start + 2;
                        while !self.ended {
                            self.ended = !fill(&mut self.buffer)?;
                        }
                        return if self.buffer.len() > end {
                            Err(wrong("received copy data after EOF marker"))
                        } else {
                            Ok(None)
                        };
                    }
                    // The trailer may be missing.
                    Next::Part if self.ended && pending.len() < 2 => return Ok(None),
                    Next::Part if self.ended => return Err(wrong("unexpected EOF in COPY data")),
                    Next::Part => {}
                }
            } else if let Some(length) = header_length(pending)? {
                self.start += length;
                self.headed = true;
                continue;
            } else if self.ended {
                return Err(wrong("COPY file signature not recognized"));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.ended = !fill(&mut self.buffer)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use niwaki_types::UserTypes;

    use super::*;
    use crate::utility::CopyOptions;

    fn data() -> Vec<u8> {
        let settings = TextSettings::default();
        let mut out = Vec::new();
        write_header(&mut out);
        for row in [[Datum::Int4(1), Datum::text("one")], [Datum::Null, Datum::text("")]] {
            write_row(&row, &[TypeOid::INT4, TypeOid::TEXT], &settings, &mut out);
        }
        out
    }

    fn read(data: &[u8], piece: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        let options = CopyOptions { binary: true, ..CopyOptions::default() };
        let mut input = CopyInput::of(&options);
        let mut pieces = data.chunks(piece);
        let mut rows = Vec::new();
        while let Some(row) = input.next_line(&mut |buffer| {
            let next = pieces.next();
            buffer.extend_from_slice(next.unwrap_or_default());
            Ok(next.is_some())
        })? {
            let values = fields(input.line(&row), 2)?;
            rows.push(values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect());
        }
        Ok(rows)
    }

    #[test]
    fn what_is_written_reads_back_however_it_is_cut() {
        let expected = [[Some(vec![0, 0, 0, 1]), Some(b"one".to_vec())], [None, Some(Vec::new())]];
        let mut whole = data();
        for trailer in [false, true] {
            if trailer {
                write_trailer(&mut whole);
            }
            for piece in [1, 3, 16, 4096] {
                assert_eq!(read(&whole, piece).unwrap(), expected);
            }
        }
        let kind = niwaki_types::ColumnType::new(TypeOid::INT4);
        let value = niwaki_types::read_binary(kind, &[0, 0, 0, 1], &UserTypes::default());
        assert!(matches!(value, Ok(Datum::Int4(1))));
    }

    #[test]
    fn what_is_cut_off_or_wrong_is_refused() {
        let whole = data();
        let header = SIGNATURE.len() + 8;
        for end in 0..header {
            assert!(read(&whole[..end], 5).is_err(), "{end}");
        }
        for end in header..whole.len() {
            let rows = read(&whole[..end], 5);
            let first = header + 2 + 4 + 4 + 4 + 3;
            match end {
                _ if end < header + 2 => assert_eq!(rows.unwrap().len(), 0),
                _ if (first..first + 2).contains(&end) => assert_eq!(rows.unwrap().len(), 1),
                _ => assert_eq!(rows.unwrap_err().message, "unexpected EOF in COPY data", "{end}"),
            }
        }
        let with = |more: &[u8]| [&whole[..header], more].concat();
        let message = |data: Vec<u8>| read(&data, 7).unwrap_err().message.clone();
        assert_eq!(message(b"a text\nof lines\n".to_vec()), "COPY file signature not recognized");
        assert_eq!(
            message(with(&[0, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255])),
            "row field count is 3, expected 2"
        );
        assert_eq!(message(with(&[255, 254])), "row field count is -2, expected 2");
        assert_eq!(message(with(&[0, 2, 255, 255, 255, 254])), "invalid field size");
        assert_eq!(message(with(&[255, 255, 0])), "received copy data after EOF marker");
    }
}
