//! Values of sequences that a session was given.

use niwaki_env::hash::HashMap;

/// Values that `nextval` returned in this session, by sequence.
#[derive(Debug, Default)]
pub(crate) struct SequenceValues {
    pub(crate) values: HashMap<u32, i64>,
    pub(crate) last: Option<u32>,
}

impl SequenceValues {
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.last = None;
    }
}
