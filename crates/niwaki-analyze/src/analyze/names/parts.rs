//! Dotted names as their parts.

use pg_query::{Node, NodeEnum};

/// Returns the parts of a dotted name.
pub(crate) fn names_of(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .filter_map(|node| match node.node.as_ref() {
            Some(NodeEnum::String(s)) => Some(s.sval.as_str()),
            _ => None,
        })
        .collect()
}
