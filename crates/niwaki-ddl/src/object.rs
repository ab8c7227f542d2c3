//! Objects that depend on other objects.

use niwaki_catalog::Oid;

/// An object that cannot stay when another one is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A foreign key.
    ForeignKey {
        /// The referencing table.
        table: Oid,
        constraint: Oid,
    },
    View(Oid),
    /// A trigger.
    Trigger {
        /// The table that has it.
        table: Oid,
        trigger: Oid,
    },
    /// A function.
    Function(Oid),
    /// The default of a column, by its position.
    Default {
        table: Oid,
        column: usize,
    },
    /// A column that is computed from others.
    Column {
        table: Oid,
        column: usize,
    },
    /// A CHECK of a table.
    Check {
        table: Oid,
        check: String,
    },
    /// An index with expressions.
    Index {
        table: Oid,
        index: Oid,
    },
    /// A domain, for its default.
    Domain(Oid),
    /// A CHECK of a domain.
    DomainCheck {
        domain: Oid,
        check: String,
    },
}

impl Object {
    /// Returns the relation, function or type that has or is the object. Its lock keeps other
    /// sessions from changing the object.
    pub(crate) fn owner(&self) -> Oid {
        match self {
            Self::ForeignKey { table, .. }
            | Self::Trigger { table, .. }
            | Self::Default { table, .. }
            | Self::Column { table, .. }
            | Self::Check { table, .. }
            | Self::Index { table, .. } => *table,
            Self::View(oid) | Self::Function(oid) | Self::Domain(oid) => *oid,
            Self::DomainCheck { domain, .. } => *domain,
        }
    }

    /// Returns the sort key for lists by age. A part without a number of its own comes behind its
    /// owner.
    pub(crate) fn age(&self) -> (Oid, usize, &str) {
        match self {
            Self::ForeignKey { constraint: oid, .. }
            | Self::Trigger { trigger: oid, .. }
            | Self::Index { index: oid, .. }
            | Self::View(oid)
            | Self::Function(oid)
            | Self::Domain(oid) => (*oid, 0, ""),
            Self::Default { table, column } | Self::Column { table, column } => {
                (*table, column + 1, "")
            }
            Self::Check { table, check } => (*table, usize::MAX, check),
            Self::DomainCheck { domain, check } => (*domain, usize::MAX, check),
        }
    }
}
