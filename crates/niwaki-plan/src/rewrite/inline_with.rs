//! Inlining of WITH queries.

use niwaki_expr::query::{Body, From, ItemKind, Query, SharedQuery, count_named};

use super::Rewriter;

impl Rewriter<'_, '_> {
    /// Replaces references to WITH queries by the query, if there is one reference or the query is
    /// NOT MATERIALIZED. Queries that are recursive or volatile, change data or lock rows are not
    /// inlined.
    pub(super) fn inline(&mut self, from: &mut From) {
        for item in &mut from.items {
            let ItemKind::Shared { number } = item.kind else { continue };
            let Some(shared) = self.shared.get_mut(number) else { continue };
            if !can_be_inlined(shared) {
                continue;
            }
            let query = if shared.references == 1 {
                std::mem::replace(&mut shared.query, Query::empty())
            } else if self.growth.admits(shared.query.nodes()) {
                let copy = shared.query.clone();
                count_named(self.shared, &copy);
                copy
            } else {
                continue;
            };
            item.kind = ItemKind::Query(Box::new(query));
        }
    }
}

fn can_be_inlined(shared: &SharedQuery) -> bool {
    let wanted = match shared.materialized {
        Some(materialized) => !materialized,
        None => shared.references == 1,
    };
    let recursive = matches!(&shared.query.body, Body::Set(set) if set.recursive.is_some());
    wanted && !recursive && !shared.query.is_volatile() && !shared.query.locks_rows()
}
