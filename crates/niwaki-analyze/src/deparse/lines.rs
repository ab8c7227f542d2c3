//! Text that grows clause by clause, each clause on its own line.

/// Columns that a nested query is indented by.
pub(super) const STEP: usize = 8;
/// Columns that a JOIN is indented further than its clause.
pub(super) const JOIN: usize = 4;
/// Columns that a further target or FROM item is indented by.
pub(super) const ITEM: usize = 4;

/// A text with the current indentation of its lines.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) text: String,
    pub(super) indent: usize,
}

impl Lines {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Begins a line and writes `word`. The indentation is one [`STEP`] less than the text's, plus
    /// `more`.
    pub(super) fn clause(&mut self, word: &str, more: usize) {
        self.line(self.indent.saturating_sub(STEP) + more);
        self.text.push_str(word);
    }

    /// Begins a line.
    pub(super) fn line(&mut self, indent: usize) {
        self.trim();
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', indent));
    }

    /// Removes blanks from the end.
    pub(super) fn trim(&mut self) {
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
    }
}
