//! Cuts COPY FROM data into lines and fields.

use std::ops::Range;

use niwaki_env::seeded_bug;
use niwaki_types::growing::charge_more;
use niwaki_types::invalid_utf8;

use super::csv::RecordEnd;
use crate::error::{Result, SqlError};
use crate::utility::CopyOptions;

/// Cuts COPY data, which arrives in pieces of any size, into lines.
#[derive(Debug)]
pub struct CopyInput {
    pub(super) buffer: Vec<u8>,
    /// Start of the next line in `buffer`.
    pub(super) start: usize,
    /// End of the part of `buffer` that was searched for a line end without finding one.
    searched: usize,
    /// True once the client sent everything.
    pub(super) ended: bool,
    /// True once a line `\.` was met: the data after it is ignored.
    marked: bool,
    /// True if lines end with `\r\n`; known after the first line.
    carriage_returns: Option<bool>,
    pub(super) line: u64,
    /// True for the binary format: its rows count as lines.
    binary: bool,
    /// True once the binary header was met.
    pub(super) headed: bool,
    /// Finds the ends of CSV records.
    records: Option<RecordEnd>,
}

impl Default for CopyInput {
    fn default() -> Self {
        Self::new()
    }
}

impl CopyInput {
    /// Creates an input that has read nothing yet.
    pub fn new() -> Self {
        Self {
            buffer: Vec::with_capacity(64 * 1024),
            start: 0,
            searched: 0,
            ended: false,
            marked: false,
            carriage_returns: None,
            line: 0,
            binary: false,
            headed: false,
            records: None,
        }
    }

    /// Creates an input of a format that has read nothing yet.
    pub fn of(options: &CopyOptions) -> Self {
        let records = options.csv.as_ref().map(RecordEnd::new);
        Self { records, binary: options.binary, ..Self::new() }
    }

    /// Returns the number, from 1, of the line that [`CopyInput::next_line`] returned last.
    pub fn line_number(&self) -> u64 {
        self.line
    }

    /// Returns the bytes of a line that [`CopyInput::next_line`] found; valid until its next call.
    pub fn line(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// Returns the next line, without its end; `None` after the last. `fill` appends more data and
    /// returns whether more may follow.
    ///
    /// # Errors
    /// Errors of `fill`; 22P04 for line ends of mixed kinds, and for data that is not in the binary
    /// format.
    pub fn next_line(
        &mut self,
        fill: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<Range<usize>>> {
        if self.binary {
            return self.next_row(fill);
        }
        loop {
            if self.marked {
                return self.drain(fill);
            }
            if let Some(end) = self.find_end() {
                let mut range = self.start..end;
                self.start = end + 1;
                self.searched = self.start;
                self.line += 1;
                if self.records.is_some() {
                    // Newlines within quotes count, too.
                    self.line += memchr::memchr_iter(b'\n', self.line(&range)).count() as u64;
                }
                self.strip_carriage_return(&mut range)?;
                if self.line(&range) == b"\\." {
                    self.line -= 1;
                    self.marked = true;
                    continue;
                }
                return Ok(Some(range));
            }
            if self.ended {
                // The last line need not end with a newline.
                if self.start >= self.buffer.len() || seeded_bug!("unended_line_lost") {
                    return Ok(None);
                }
                if self.records.is_some() {
                    let range = self.start..self.buffer.len();
                    self.start = range.end;
                    self.line += 1 + memchr::memchr_iter(b'\n', self.line(&range)).count() as u64;
                    return Ok(Some(range).filter(|range| self.line(range) != b"\\."));
                }
                self.buffer.push(b'\n');
                continue;
            }
            // Remove the part that was already read, so that the buffer does not grow with it.
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.searched -= self.start;
                self.start = 0;
            }
            let before = self.buffer.len();
            self.ended = !fill(&mut self.buffer)?;
            // Charge what has become of the line so far.
            charge_more(before, self.buffer.len() - before)?;
        }
    }

    /// Reads and discards the data after the end marker.
    fn drain(
        &mut self,
        fill: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<Range<usize>>> {
        while !self.ended {
            self.buffer.clear();
            self.ended = !fill(&mut self.buffer)?;
        }
        self.buffer.clear();
        self.start = 0;
        self.searched = 0;
        Ok(None)
    }

    /// Returns the position of the newline that ends the current line: one that no backslash
    /// escapes.
    fn find_end(&mut self) -> Option<usize> {
        let mut from = self.searched;
        if let Some(records) = &mut self.records {
            let end = self.buffer.len();
            self.searched = end;
            return records.find(&self.buffer, from..end);
        }
        while let Some(offset) = memchr::memchr(b'\n', self.buffer.get(from..)?) {
            let at = from + offset;
            let escaped =
                self.buffer[self.start..at].iter().rev().take_while(|b| **b == b'\\').count() % 2
                    == 1;
            if !escaped {
                return Some(at);
            }
            from = at + 1;
        }
        self.searched = self.buffer.len();
        None
    }

    fn strip_carriage_return(&mut self, range: &mut Range<usize>) -> Result<()> {
        let ends_with = self.buffer[range.clone()].last() == Some(&b'\r');
        match (self.carriage_returns, ends_with) {
            (None, _) => {
                self.carriage_returns = Some(ends_with);
                range.end -= usize::from(ends_with);
                Ok(())
            }
            (Some(true), true) => {
                range.end -= 1;
                Ok(())
            }
            (Some(true), false) if self.ended && self.start >= self.buffer.len() => Ok(()),
            (Some(true), false) => Err(self.unexpected_end("newline", "\"\\n\"")),
            (Some(false), true) => Err(self.unexpected_end("carriage return", "\"\\r\"")),
            (Some(false), false) => Ok(()),
        }
    }
}

impl CopyInput {
    fn unexpected_end(&self, what: &str, escape: &str) -> SqlError {
        let (word, instead) = match self.records {
            Some(_) => ("unquoted", "quoted CSV field"),
            None => ("literal", escape),
        };
        SqlError::new("22P04", format!("{word} {what} found in data"))
            .with_hint(format!("Use {instead} to represent {what}."))
    }
}

/// The fields of one line, unescaped; the buffers are reused for the next line.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// End of each field in `bytes`, and whether it is NULL.
    ends: Vec<(usize, bool)>,
}

impl Fields {
    /// Creates an empty list of fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no field; false after every [`Fields::split`].
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Cuts a line into fields.
    ///
    /// # Errors
    /// 22021 for bytes that are not UTF-8.
    pub fn split(&mut self, line: &[u8], options: &CopyOptions) -> Result<()> {
        self.bytes.clear();
        self.ends.clear();
        if let Some(csv) = &options.csv {
            self.split_record(line, options, csv)?;
            return self.check();
        }
        let null = options.null.as_bytes();
        let mut rest = line;
        loop {
            // One pass: copies up to the delimiter, and stops at backslashes.
            let field_start = self.bytes.len();
            let raw = rest;
            let mut taken = 0;
            let mut last = true;
            while let Some(offset) =
                memchr::memchr2(options.delimiter, b'\\', rest.get(taken..).unwrap_or_default())
            {
                let at = taken + offset;
                self.bytes.extend_from_slice(&rest[taken..at]);
                if rest[at] == options.delimiter {
                    taken = at;
                    last = false;
                    break;
                }
                taken = self.unescape(rest, at);
            }
            if last {
                self.bytes.extend_from_slice(rest.get(taken..).unwrap_or_default());
                taken = rest.len();
            }
            // NULL is recognized before unescaping.
            let is_null = &raw[..taken] == null;
            if is_null {
                self.bytes.truncate(field_start);
            }
            self.ends.push((self.bytes.len(), is_null));
            if last {
                break;
            }
            rest = &rest[taken + 1..];
        }
        self.check()
    }

    /// Appends a field.
    pub(super) fn push(&mut self, value: &[u8], is_null: bool) {
        if !is_null {
            self.bytes.extend_from_slice(value);
        }
        self.ends.push((self.bytes.len(), is_null));
    }

    /// Returns 22021 for bytes that are not UTF-8.
    fn check(&self) -> Result<()> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if !text.contains('\0') => Ok(()),
            Ok(_) => Err(invalid_utf8(&[0], 0).into()),
            Err(error) => Err(invalid_utf8(&self.bytes, error.valid_up_to()).into()),
        }
    }

    /// Returns field number `position`, from 0; `None` for NULL and past the end.
    pub fn get(&self, position: usize) -> Option<&str> {
        let (end, is_null) = *self.ends.get(position)?;
        if is_null {
            return None;
        }
        let start = match position.checked_sub(1) {
            None => 0,
            Some(before) => self.ends[before].0,
        };
        // `split` checked the whole. A cut inside a character would need a delimiter there, and
        // delimiters are ASCII.
        std::str::from_utf8(&self.bytes[start..end]).ok()
    }

    /// Appends the character that the escape at `at` stands for; returns the position after the
    /// escape.
    fn unescape(&mut self, line: &[u8], at: usize) -> usize {
        let Some(&c) = line.get(at + 1) else {
            // A backslash at the end of the line stands for itself.
            self.bytes.push(b'\\');
            return at + 1;
        };
        let simple = match c {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut value = 0u32;
                let mut end = at + 1;
                while end < at + 4
                    && let Some(d @ b'0'..=b'7') = line.get(end)
                {
                    value = value * 8 + u32::from(d - b'0');
                    end += 1;
                }
                self.bytes.push((value & 0xff) as u8);
                return end;
            }
            b'x' => {
                let mut value = 0u32;
                let mut end = at + 2;
                while end < at + 4
                    && let Some(d) = line.get(end).and_then(|d| char::from(*d).to_digit(16))
                {
                    value = value * 16 + d;
                    end += 1;
                }
                if end == at + 2 {
                    self.bytes.push(b'x');
                } else {
                    self.bytes.push((value & 0xff) as u8);
                }
                return end;
            }
            other => other,
        };
        self.bytes.push(simple);
        at + 2
    }
}

/// Returns the CONTEXT of an error in a line.
pub fn context(table: &str, line_number: u64, line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    format!("COPY {table}, line {line_number}: \"{}\"", shortened(&text))
}

/// Returns the CONTEXT of an error in a field.
pub fn context_column(table: &str, line_number: u64, column: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => {
            format!("COPY {table}, line {line_number}, column {column}: \"{}\"", shortened(value))
        }
        None => format!("COPY {table}, line {line_number}, column {column}: null input"),
    }
}

fn shortened(text: &str) -> String {
    const LIMIT: usize = 100;
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let mut end = LIMIT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CopyOptions {
        CopyOptions::default()
    }

    fn lines(pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let mut input = CopyInput::new();
        let mut next = 0;
        let mut result = Vec::new();
        while let Some(range) = input.next_line(&mut |buffer| {
            if let Some(piece) = pieces.get(next) {
                buffer.extend_from_slice(piece);
            }
            next += 1;
            Ok(next <= pieces.len())
        })? {
            result.push(input.line(&range).to_vec());
        }
        Ok(result)
    }

    #[test]
    fn lines_across_pieces() {
        assert_eq!(lines(&[b"a\tb\nc", b"", b"d\n", b"e"]).unwrap(), [&b"a\tb"[..], b"cd", b"e"]);
        assert_eq!(lines(&[b"a\r\nb\r\n"]).unwrap(), [b"a", b"b"]);
        assert_eq!(lines(&[b"a\\\nb\nc\\\\\nd\n"]).unwrap(), [&b"a\\\nb"[..], b"c\\\\", b"d"]);
        assert_eq!(lines(&[b"a\n\\.\nrest", b"more\n"]).unwrap(), [b"a"]);
        assert!(lines(&[]).unwrap().is_empty());
        assert_eq!(lines(&[b"\n"]).unwrap(), [b""]);
        assert_eq!(lines(&[b"a\nb\r\n"]).unwrap_err().sqlstate, "22P04");
        assert_eq!(lines(&[b"a\r\nb\nc"]).unwrap_err().sqlstate, "22P04");
    }

    /// Checks that the lines do not depend on where the data is cut.
    #[test]
    fn lines_do_not_depend_on_the_cuts() {
        let data = b"one\ttwo\\\nthree\nfour\\\\\n\nfive\n\\.\nnot seen\n";
        let whole = lines(&[data]).unwrap();
        assert_eq!(whole.len(), 4);
        for cut in 0..data.len() {
            let (a, b) = data.split_at(cut);
            assert_eq!(lines(&[a, b]).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn fields_are_unescaped_and_null_is_not() {
        let mut f = Fields::new();
        f.split(b"1\t\\N\ta\\tb\\\\\\n\t\\x41\\101\t\\q\t\\\\N\t", &options()).unwrap();
        let all: Vec<Option<&str>> = (0..f.len()).map(|i| f.get(i)).collect();
        assert_eq!(
            all,
            [Some("1"), None, Some("a\tb\\\n"), Some("AA"), Some("q"), Some("\\N"), Some("")]
        );
        f.split(b"", &options()).unwrap();
        assert_eq!((f.len(), f.get(0)), (1, Some("")));
        f.split(b"|x", &CopyOptions { delimiter: b'|', null: String::new(), ..options() }).unwrap();
        assert_eq!((f.len(), f.get(0), f.get(1)), (2, None, Some("x")));
        let e = f.split(b"a\xff", &options()).unwrap_err();
        assert_eq!(e.message, "invalid byte sequence for encoding \"UTF8\": 0xff");
        assert_eq!(f.split(b"a\\000", &options()).unwrap_err().sqlstate, "22021");
    }
}
