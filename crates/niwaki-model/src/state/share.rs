//! Slots that several actors use.

/// A slot that several actors use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Workers that read with the snapshot.
    pub(crate) workers: usize,
    /// The actor that took the snapshot no longer needs it.
    pub(crate) left: bool,
}
