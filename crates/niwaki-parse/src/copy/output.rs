//! Writes the lines of COPY TO.

use niwaki_types::growing::{ask_to_grow, charge_more, value_bytes};
use niwaki_types::{Datum, TextSettings, TypeOid, work, write_text};

use super::{binary, csv};
use crate::error::Result;
use crate::utility::CopyOptions;

/// Bytes of a value that are written between two interrupt checks.
const PART_BYTES: usize = 64 << 10;

/// Turns rows into lines; the buffer is reused for the next line.
#[derive(Debug)]
pub struct CopyOutput {
    options: CopyOptions,
    types: Vec<TypeOid>,
    settings: TextSettings,
    /// Columns whose values are always in quotes.
    quoted: Vec<bool>,
    line: Vec<u8>,
    value: Vec<u8>,
    /// True once something was written.
    begun: bool,
}

impl CopyOutput {
    /// Creates the output for rows of these types.
    pub fn new(options: CopyOptions, types: Vec<TypeOid>, settings: TextSettings) -> Self {
        let (quoted, line, value) = (Vec::new(), Vec::new(), Vec::new());
        Self { options, types, settings, quoted, line, value, begun: false }
    }

    /// Puts the values of these columns in quotes, needed or not.
    #[must_use]
    pub fn with_quotes(self, quoted: Vec<bool>) -> Self {
        Self { quoted, ..self }
    }

    /// Returns the line of column names, its newline included.
    pub fn header<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> &[u8] {
        self.line.clear();
        for (i, name) in names.enumerate() {
            if i > 0 {
                self.line.push(self.options.delimiter);
            }
            match &self.options.csv {
                Some(form) => {
                    let alone = self.types.len() == 1;
                    csv::write(name.as_bytes(), false, alone, &self.options, form, &mut self.line);
                }
                None => escape(name.as_bytes(), self.options.delimiter, &mut self.line),
            }
        }
        self.line.push(b'\n');
        &self.line
    }

    /// The header of the binary format comes with the first row, as clients expect it.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            binary::write_header(&mut self.line);
        }
    }

    /// Returns the bytes after the last row; the text format has none.
    pub fn end(&mut self) -> &[u8] {
        self.line.clear();
        if self.options.binary {
            self.begin();
            binary::write_trailer(&mut self.line);
        }
        &self.line
    }

    /// Returns the line of a row, its newline included.
    ///
    /// # Errors
    /// `54000` where the line would be longer than a value may be, `53200` where there is no
    /// memory.
    pub fn row(&mut self, row: &[Datum]) -> Result<&[u8]> {
        self.line.clear();
        if self.options.binary {
            let bytes = row.iter().map(value_bytes).fold(0, usize::saturating_add);
            charge_more(0, bytes)?;
            ask_to_grow(self.line.capacity(), 0, bytes)?;
            self.begin();
            binary::write_row(row, &self.types, &self.settings, &mut self.line);
            return Ok(&self.line);
        }
        for (i, value) in row.iter().enumerate() {
            if i > 0 {
                self.line.push(self.options.delimiter);
            }
            if matches!(value, Datum::Null) {
                self.line.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            let oid = self.types.get(i).copied().unwrap_or(TypeOid::TEXT);
            self.value.clear();
            let bytes = match value {
                Datum::Text(text) => text.len(),
                Datum::Bytea(bytes) => bytes.len().saturating_mul(2),
                _ => 0,
            };
            // The bytes exist twice: once as a value, once in the line.
            charge_more(self.line.len(), bytes)?;
            ask_to_grow(self.value.capacity(), 0, bytes)?;
            write_text(value, oid, &self.settings, &mut self.value);
            ask_to_grow(self.line.capacity(), self.line.len(), self.value.len())?;
            match &self.options.csv {
                Some(form) => {
                    work::tick(self.value.len())?;
                    let quotes = self.quoted.get(i).copied().unwrap_or(false);
                    let alone = row.len() == 1;
                    csv::write(&self.value, quotes, alone, &self.options, form, &mut self.line);
                }
                None => {
                    for part in self.value.chunks(PART_BYTES) {
                        work::tick(part.len())?;
                        escape(part, self.options.delimiter, &mut self.line);
                    }
                }
            }
        }
        self.line.push(b'\n');
        Ok(&self.line)
    }
}

fn escape(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for &byte in value {
        let letter = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if other == delimiter => other,
            other => {
                out.push(other);
                continue;
            }
        };
        out.push(b'\\');
        out.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Fields;

    #[test]
    fn what_is_written_reads_back() {
        let options = CopyOptions { delimiter: b'|', ..CopyOptions::default() };
        let texts = ["", "a|b", "back\\slash", "tab\tnew\nline\r", "\\N", "é"];
        let mut output =
            CopyOutput::new(options.clone(), vec![TypeOid::TEXT; 7], TextSettings::default());
        let mut row: Vec<Datum> = texts.iter().map(|t| Datum::Text((*t).into())).collect();
        row.push(Datum::Null);
        let line = output.row(&row).unwrap().to_vec();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        let mut fields = Fields::new();
        fields.split(&line[..line.len() - 1], &options).unwrap();
        assert_eq!(fields.len(), 7);
        for (i, text) in texts.iter().enumerate() {
            assert_eq!(fields.get(i), Some(*text));
        }
        assert_eq!(fields.get(6), None);
    }
}
