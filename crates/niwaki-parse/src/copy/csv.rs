//! Reads and writes the CSV format of COPY.

use std::ops::Range;

use super::input::Fields;
use crate::error::{Result, SqlError};
use crate::utility::{CopyOptions, Csv};

/// Finds the newline outside quotes that ends a record. The state after the bytes so far is kept
/// for the bytes that follow.
#[derive(Debug)]
pub(super) struct RecordEnd {
    quote: u8,
    /// Escape character; `None` where quotes are doubled, which needs no state.
    escape: Option<u8>,
    quoted: bool,
    escaped: bool,
}

impl RecordEnd {
    pub(super) fn new(csv: &Csv) -> Self {
        let escape = (csv.escape != csv.quote).then_some(csv.escape);
        Self { quote: csv.quote, escape, quoted: false, escaped: false }
    }

    /// Returns the position of the newline within `bytes[range]`, if there is one.
    pub(super) fn find(&mut self, bytes: &[u8], range: Range<usize>) -> Option<usize> {
        for at in range {
            let byte = bytes[at];
            if byte == b'\n' && !self.quoted {
                self.escaped = false;
                return Some(at);
            }
            if self.quoted && Some(byte) == self.escape {
                self.escaped = !self.escaped;
            }
            if byte == self.quote && !self.escaped {
                self.quoted = !self.quoted;
            }
            if Some(byte) != self.escape {
                self.escaped = false;
            }
        }
        None
    }
}

impl Fields {
    /// Cuts a record into fields.
    ///
    /// # Errors
    /// 22P04 for a quote that is not closed.
    pub(super) fn split_record(
        &mut self,
        record: &[u8],
        options: &CopyOptions,
        csv: &Csv,
    ) -> Result<()> {
        let mut bytes = record.iter().copied().peekable();
        let (mut field, mut raw_start, mut at) = (Vec::new(), 0, 0);
        let mut was_quoted = false;
        loop {
            let next = bytes.next();
            if next.is_none() || next == Some(options.delimiter) {
                // NULL is only a value without quotes.
                let is_null = !was_quoted && &record[raw_start..at] == options.null.as_bytes();
                self.push(&field, is_null);
                if next.is_none() {
                    return Ok(());
                }
                (raw_start, was_quoted) = (at + 1, false);
                field.clear();
            } else if next == Some(csv.quote) {
                was_quoted = true;
                loop {
                    let unterminated = || SqlError::new("22P04", "unterminated CSV quoted field");
                    let byte = bytes.next().ok_or_else(unterminated)?;
                    at += 1;
                    let escapes = |next: &u8| *next == csv.escape || *next == csv.quote;
                    if byte == csv.escape
                        && let Some(next) = bytes.next_if(escapes)
                    {
                        field.push(next);
                        at += 1;
                    } else if byte == csv.quote {
                        break;
                    } else {
                        field.push(byte);
                    }
                }
            } else {
                field.extend(next);
            }
            at += 1;
        }
    }
}

/// Appends a value, in quotes if needed or asked for. `alone`: the value is the only one of the
/// line.
pub(super) fn write(
    value: &[u8],
    quotes: bool,
    alone: bool,
    options: &CopyOptions,
    csv: &Csv,
    out: &mut Vec<u8>,
) {
    let special = [options.delimiter, csv.quote, b'\n', b'\r'];
    let needed = value == options.null.as_bytes()
        || alone && value == b"\\."
        || value.iter().any(|byte| special.contains(byte));
    if !quotes && !needed {
        out.extend_from_slice(value);
        return;
    }
    out.push(csv.quote);
    for &byte in value {
        if byte == csv.quote || byte == csv.escape {
            out.push(csv.escape);
        }
        out.push(byte);
    }
    out.push(csv.quote);
}

#[cfg(test)]
mod tests {
    use super::super::CopyInput;
    use super::*;
    use crate::utility::ColumnChoice;

    fn options(quote: u8, escape: u8) -> CopyOptions {
        let force_quote = ColumnChoice::Named(Vec::new());
        let (force_not_null, force_null) = (Vec::new(), Vec::new());
        let csv = Csv { quote, escape, force_quote, force_not_null, force_null };
        let null = String::new();
        CopyOptions { delimiter: b',', null, csv: Some(csv), ..CopyOptions::default() }
    }

    /// Returns the fields of each record of data that arrives in pieces of `piece` bytes.
    fn read(data: &[u8], piece: usize, options: &CopyOptions) -> Result<Vec<Vec<Option<String>>>> {
        let mut input = CopyInput::of(options);
        let mut pieces = data.chunks(piece);
        let mut fields = Fields::new();
        let mut records = Vec::new();
        while let Some(line) = input.next_line(&mut |buffer| {
            let next = pieces.next();
            buffer.extend_from_slice(next.unwrap_or_default());
            Ok(next.is_some())
        })? {
            fields.split(input.line(&line), options)?;
            let values = (0..fields.len()).map(|at| fields.get(at).map(str::to_owned));
            records.push(values.collect());
        }
        Ok(records)
    }

    #[test]
    fn what_is_written_reads_back_however_it_is_cut() {
        let values = [
            "",
            "a",
            "a,b",
            "\"",
            "\"\"",
            "x\ny",
            "\\",
            "\\.",
            "it's",
            "a\rb",
            "ü,\"\n\"",
            "'",
            "\\\"",
            "\\'",
        ];
        for (quote, escape) in [(b'"', b'"'), (b'\'', b'\''), (b'"', b'\\'), (b'\'', b'\\')] {
            let options = options(quote, escape);
            let csv = options.csv.clone().unwrap();
            let mut data = Vec::new();
            let mut expected = Vec::new();
            for (one, other) in
                values.iter().flat_map(|one| values.iter().map(move |other| (one, other)))
            {
                write(one.as_bytes(), one.len() == 2, false, &options, &csv, &mut data);
                data.push(b',');
                write(other.as_bytes(), false, false, &options, &csv, &mut data);
                data.extend_from_slice(b",\n");
                expected.push(vec![Some((*one).to_owned()), Some((*other).to_owned()), None]);
            }
            for piece in [1, 2, 7, 4096] {
                assert_eq!(
                    read(&data, piece, &options).unwrap(),
                    expected,
                    "{quote} {escape} {piece}"
                );
            }
        }
    }

    #[test]
    fn quotes_may_begin_anywhere_and_must_end() {
        let options = options(b'"', b'"');
        let fields =
            |text: &str| read(text.as_bytes(), 3, &options).map(|mut all| all.swap_remove(0));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(fields("a\"b,c\"d,\"\"").unwrap(), [some("ab,cd"), some("")]);
        assert_eq!(fields(",").unwrap(), [None, None]);
        assert_eq!(fields("\"a\nb\"\r\n").unwrap(), [some("a\nb")]);
        let error = fields("1,\"open\n2").unwrap_err();
        assert_eq!(
            (error.sqlstate, error.message.as_str()),
            ("22P04", "unterminated CSV quoted field")
        );
        let error = read(b"a\nb\r\n", 2, &options).unwrap_err();
        assert_eq!(error.message, "unquoted carriage return found in data");
        assert_eq!(read(b"a\n\\.\nb\n", 2, &options).unwrap(), [[some("a")]]);
    }
}
