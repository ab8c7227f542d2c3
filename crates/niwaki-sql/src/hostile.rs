//! Fuzz targets for COPY data: for any bytes, a target returns or fails, but never panics.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` supply the data.

use niwaki_env::hostile::Target;
use niwaki_parse::copy::{CopyInput, Fields, context};
use niwaki_parse::error::Result;
use niwaki_parse::utility::CopyOptions;

/// The targets: name of a decoder, valid seed inputs, and the function that calls the decoder.
pub const TARGETS: &[Target] = &[("copy_text", seeds, copy_text)];

fn seeds() -> Vec<Vec<u8>> {
    let data: [&[u8]; 5] = [
        b"\t\x03one\ttwo\\\nthree\nfour\\\\\n\nfive\n\\.\nnot seen\n",
        b"\t\x011\t\\N\ta\\tb\\\\\\n\t\\x41\\101\t\\q\t\\\\N\t\n",
        b"|\x07a|b\r\nc|d\r\n",
        b"\t\x02a\nb\r\n",
        b",\x20\xc3\xa9,\\303\\251\n",
    ];
    data.map(<[u8]>::to_vec).to_vec()
}

fn lines(data: &[u8], piece: usize) -> Result<Vec<Vec<u8>>> {
    let mut input = CopyInput::new();
    let mut pieces = data.chunks(piece);
    let mut lines = Vec::new();
    let mut fill = |buffer: &mut Vec<u8>| {
        let piece = pieces.next();
        buffer.extend_from_slice(piece.unwrap_or_default());
        Ok(piece.is_some())
    };
    while let Some(range) = input.next_line(&mut fill)? {
        lines.push(input.line(&range).to_vec());
    }
    Ok(lines)
}

/// Decodes `bytes`: the delimiter, the length of the pieces in which the data arrives, then the
/// data. Every piece length must produce the same lines.
fn copy_text(bytes: &[u8]) {
    let Some((&[delimiter, piece], data)) = bytes.split_first_chunk::<2>() else { return };
    // The statement refuses other delimiters.
    if !delimiter.is_ascii()
        || delimiter.is_ascii_alphanumeric()
        || b"\\.\r\n\0".contains(&delimiter)
    {
        return;
    }
    let options = CopyOptions { delimiter, ..CopyOptions::default() };
    let whole = lines(data, data.len().max(1));
    let cut = lines(data, usize::from(piece).max(1));
    assert_eq!(whole.as_ref().ok(), cut.as_ref().ok());
    let mut fields = Fields::new();
    for line in whole.iter().flatten() {
        if fields.split(line, &options).is_ok() {
            assert!(!fields.is_empty());
            let bytes: usize =
                (0..fields.len()).filter_map(|at| fields.get(at)).map(str::len).sum();
            assert!(bytes <= line.len(), "unescaping makes nothing longer");
        }
        context("t", 1, line);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
