//! Scans of stored tables, and the paths by which they find their rows.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_types::ColumnMask;

use crate::expr::Expr;

/// A scan of a stored table.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// The table.
    pub relation: Arc<Relation>,
    /// Alias or name.
    pub name: String,
    /// First slot of the table's columns. The system columns follow them.
    pub start: usize,
    /// Columns that the plan reads.
    pub columns: ColumnMask,
    /// System columns that the plan reads: ctid, tableoid, xmin.
    pub system: [bool; 3],
    /// The access path.
    pub path: PathPlan,
    /// Conditions that the path does not ensure.
    pub filter: Option<Expr>,
    /// The expected number of rows.
    pub rows: f64,
    /// Cost before the first row. `cost` is the whole cost.
    pub startup: f64,
    /// The whole cost.
    pub cost: f64,
    /// Bytes of a row's values, roughly.
    pub width: f64,
}

impl ScanPlan {
    /// Returns the expressions that the scan evaluates, if it reads an index or the whole table.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = match &self.path {
            PathPlan::Index(path) => path.keys.as_slice(),
            _ => &[],
        };
        keys.iter().flat_map(KeyCondition::exprs).chain(&self.filter)
    }
}

impl KeyCondition {
    /// Returns the values that a key is compared with.
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let (one, lower, upper) = match self {
            Self::Free | Self::Null => (None, None, None),
            Self::Equal(value) | Self::Any(value) => (Some(value), None, None),
            Self::Range { lower, upper } => (None, lower.as_ref(), upper.as_ref()),
        };
        let bounds = lower.into_iter().chain(upper).map(|(value, _)| value);
        one.into_iter().chain(bounds)
    }
}

/// The access path of a scan.
#[derive(Clone, Debug)]
pub enum PathPlan {
    /// Every row.
    Sequential,
    /// A TID, or an array of TIDs.
    Tids {
        /// The TID, or the array of TIDs.
        value: Expr,
        /// The condition as written.
        condition: Expr,
    },
    /// A range of TIDs.
    TidRange {
        /// The lower bound, and whether it is inclusive.
        lower: Option<(Expr, bool)>,
        /// The upper bound, and whether it is inclusive.
        upper: Option<(Expr, bool)>,
        /// The conditions as written.
        conditions: Vec<Expr>,
    },
    /// The entries of an index.
    Index(IndexPath),
    /// Rows found by a bitmap.
    Bitmap(Box<BitmapPath>),
}

/// Rows found by a bitmap.
#[derive(Clone, Debug)]
pub struct BitmapPath {
    /// The tree of bitmaps.
    pub plan: BitmapPlan,
    /// The conditions of the bitmap, which are rechecked for every row.
    pub recheck: Option<Expr>,
}

/// The tree of bitmaps: index scans combined by AND and OR.
#[derive(Clone, Debug)]
pub enum BitmapPlan {
    /// The rows of an index scan.
    Index(IndexPath),
    /// The rows in all bitmaps.
    And(Vec<BitmapPlan>),
    /// The rows in any bitmap.
    Or(Vec<BitmapPlan>),
}

/// The key range of an index that a scan reads.
#[derive(Clone, Debug)]
pub struct IndexPath {
    /// Position among the table's indexes.
    pub index: usize,
    /// Conditions on the first key columns.
    pub keys: Vec<KeyCondition>,
    /// Number of keys that bound the scan. The remaining keys are compared entry by entry.
    pub bounding: usize,
    /// True if the entries are read in ascending order.
    pub forward: bool,
    /// True for an index-only scan: every needed column comes from the entries.
    pub only: bool,
    /// The conditions as written, for EXPLAIN.
    pub conditions: Vec<Expr>,
    /// Conditions that the predicate of a partial index ensures.
    pub ensured: Vec<Expr>,
    /// Number of entries that satisfy the conditions. `cost` is the cost of reading them, without
    /// the heap.
    pub rows: f64,
    /// The cost of reading the entries.
    pub cost: f64,
}

/// The condition on a key column.
#[derive(Clone, Debug)]
pub enum KeyCondition {
    /// No condition.
    Free,
    /// `column = value`
    Equal(Expr),
    /// `column = ANY (array)`
    Any(Expr),
    /// Bounds: the value, and whether the bound is inclusive. Without bounds: `column IS NOT NULL`.
    Range {
        /// The lower bound.
        lower: Option<(Expr, bool)>,
        /// The upper bound.
        upper: Option<(Expr, bool)>,
    },
    /// `column IS NULL`
    Null,
}

impl ScanPlan {
    /// Returns whether the scan returns at most one row: a unique index with every key column fixed
    /// to one value.
    pub fn is_unique_point(&self) -> bool {
        match &self.path {
            PathPlan::Index(path) => {
                let definition = &self.relation.indexes[path.index].definition;
                definition.is_unique_at_once()
                    && path.keys.len() == definition.key.len()
                    && path.keys.iter().all(|key| matches!(key, KeyCondition::Equal(_)))
            }
            _ => false,
        }
    }
}
