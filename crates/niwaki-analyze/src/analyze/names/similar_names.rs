//! Hints for misspelled column names: finds the most similar columns.

use crate::analyze::Analyzer;
use crate::analyze::names::scope::{Item, Place};

/// Most edits between a name and the suggested one, as in PostgreSQL.
const FARTHEST: usize = 3;

/// The one or two columns nearest to a name so far: item and column of each.
struct Nearest<'a> {
    edits: usize,
    found: Vec<(&'a str, &'a str)>,
}

impl<'a> Nearest<'a> {
    /// Notes a column with this edit distance. If more than two columns are equally near, none is
    /// suggested.
    fn take(&mut self, edits: usize, item: &'a str, column: &'a str) {
        if edits > self.edits || edits > FARTHEST {
            return;
        }
        if edits < self.edits {
            self.edits = edits;
            self.found.clear();
        } else if self.found.len() == 2 {
            self.found.clear();
            self.edits = edits.saturating_sub(1);
            return;
        }
        self.found.push((item, column));
    }
}

impl Analyzer<'_> {
    /// Iterates over the named items of this query and the enclosing ones, the innermost first.
    pub(crate) fn items_around(&self) -> impl Iterator<Item = &Item> {
        // The rows of a trigger function are variables, not items.
        let queries = self.scopes.iter().rev().filter(|scope| scope.place != Place::Assignment);
        queries.flat_map(|scope| &scope.items).filter(|item| !item.name.is_empty())
    }

    /// Returns PostgreSQL's hint about an unknown column.
    ///
    /// The hint names columns of this query or an enclosing one. They are at most three edits away,
    /// including the edits of the item's name. The edits of the column's name are at most half the
    /// length of the unknown name, in bytes.
    pub(crate) fn similar_columns(&self, item: Option<&str>, name: &str) -> Option<String> {
        let mut nearest = Nearest { edits: FARTHEST + 1, found: Vec::new() };
        for known in self.items_around() {
            let between_items = item.map_or(0, |item| strsim::levenshtein(item, &known.name));
            if between_items > nearest.edits {
                continue;
            }
            for column in known.columns.iter().filter(|column| !column.hidden) {
                let edits = strsim::levenshtein(&column.name, name);
                if edits <= name.len() / 2 {
                    nearest.take(edits + between_items, &known.name, &column.name);
                }
            }
        }
        let shown: Vec<String> = nearest
            .found
            .iter()
            .map(|(item, column)| format!("the column \"{item}.{column}\""))
            .collect();
        (!shown.is_empty())
            .then(|| format!("Perhaps you meant to reference {}.", shown.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_that_are_equally_near_none_is_meant() {
        let mut nearest = Nearest { edits: FARTHEST + 1, found: Vec::new() };
        nearest.take(4, "t", "far");
        assert!(nearest.found.is_empty());
        nearest.take(2, "t", "a");
        nearest.take(3, "t", "b");
        nearest.take(2, "t", "c");
        assert_eq!(nearest.found, [("t", "a"), ("t", "c")]);
        nearest.take(2, "u", "d");
        assert!(nearest.found.is_empty());
        nearest.take(2, "u", "e");
        assert!(nearest.found.is_empty(), "only one that is nearer is");
        nearest.take(1, "u", "f");
        assert_eq!(nearest.found, [("u", "f")]);
    }
}
