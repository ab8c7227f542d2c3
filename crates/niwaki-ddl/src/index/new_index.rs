//! An index that is to be made, or to be found.

use niwaki_catalog::{IndexDefinition, RelationOptions};

/// An index that is to be made.
pub(crate) struct NewIndex {
    pub(crate) name: String,
    pub(crate) definition: IndexDefinition,
    pub(crate) options: RelationOptions,
}

/// Indexes of a partition that may become parts of an index above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// All indexes. If one of them is not valid, the index above is not valid either.
    All,
    /// Valid indexes only.
    Valid,
}
