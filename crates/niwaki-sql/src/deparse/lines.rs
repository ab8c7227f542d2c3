//! Text that grows by clauses, each on a line of its own.

/// What a nested query is indented by.
pub(super) const STEP: usize = 8;
/// What a JOIN stands further in.
pub(super) const JOIN: usize = 4;
/// What a target, and another FROM item, stands further in.
pub(super) const ITEM: usize = 4;

/// A text, and how far its lines are indented.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) text: String,
    pub(super) indent: usize,
}

impl Lines {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Begins a line, indented by `more` than one step less than the text is.
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

    /// Takes blanks away from the end.
    pub(super) fn trim(&mut self) {
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
    }
}
