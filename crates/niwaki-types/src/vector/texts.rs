//! Texts in one buffer.

use std::ops::Range;

/// Texts, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    buffer: String,
    /// Begin and end of each text in the buffer.
    spans: Vec<(u32, u32)>,
}

impl Texts {
    /// Returns the number of texts.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Decides whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the bytes of the buffer.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity() + self.spans.capacity() * size_of::<(u32, u32)>()
    }

    fn span(&self, row: usize) -> Range<usize> {
        let (begin, end) = self.spans[row];
        begin as usize..end as usize
    }

    /// Returns text number `row`.
    ///
    /// # Panics
    /// If there is no such text.
    #[inline]
    pub fn get(&self, row: usize) -> &str {
        &self.buffer[self.span(row)]
    }

    /// Returns the bytes of text number `row`, which comparisons read.
    ///
    /// # Panics
    /// If there is no such text.
    #[inline]
    pub fn get_bytes(&self, row: usize) -> &[u8] {
        &self.buffer.as_bytes()[self.span(row)]
    }

    /// Returns the texts.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Appends a text. False, and nothing is appended, when the buffer would be longer than its
    /// positions can express.
    #[inline]
    pub fn push(&mut self, text: &str) -> bool {
        let begin = self.buffer.len();
        let Ok(end) = u32::try_from(begin + text.len()) else { return false };
        self.buffer.push_str(text);
        self.spans.push((begin as u32, end));
        true
    }

    pub(super) fn push_empty(&mut self) {
        self.spans.push((0, 0));
    }

    pub(super) fn pop(&mut self) {
        self.spans.pop();
    }

    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.spans.clear();
    }

    pub(super) fn take(&self, rows: &[u32]) -> Self {
        let length = |row: &u32| self.span(*row as usize).len();
        let total: usize = rows.iter().map(length).sum();
        let mut taken =
            Self { buffer: String::with_capacity(total), spans: Vec::with_capacity(rows.len()) };
        for row in rows {
            if !taken.push(self.get(*row as usize)) {
                // A text that is taken several times may not fit; then the buffer is copied as it
                // is.
                return Self {
                    buffer: self.buffer.clone(),
                    spans: rows.iter().map(|row| self.spans[*row as usize]).collect(),
                };
            }
        }
        taken
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    /// # Panics
    /// If they take 4 GiB or more.
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut list = Self::default();
        for text in texts {
            assert!(list.push(text), "less than 4 GiB of texts");
        }
        list
    }
}
