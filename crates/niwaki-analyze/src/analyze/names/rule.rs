//! The rule by which names of objects are resolved.

use std::cell::RefCell;

use niwaki_catalog::{BoundName, Oid, ViewDefinition};
use niwaki_parse::stored_references::StoredReference;

/// The rule for resolving names of relations, types and other objects.
#[derive(Default)]
pub(crate) enum Names<'a> {
    /// The search path resolves names.
    #[default]
    ByPath,
    /// The search path resolves names, and the meanings are noted.
    Recording(RefCell<RecordedNames>),
    /// Names mean what was noted when the view was created.
    Given(&'a ViewDefinition),
    /// The search path resolves names, and the numbers to store in their place are noted.
    StoringReferences(RefCell<Vec<(usize, StoredReference)>>),
    /// Names of users' objects are numbers.
    StoredReferences,
}

/// The notes taken while a view's text is analyzed.
#[derive(Default)]
pub(crate) struct RecordedNames {
    pub(crate) names: Vec<BoundName>,
    /// Unique indexes whose columns functionally determine ungrouped columns.
    pub(crate) keys: Vec<Oid>,
}
