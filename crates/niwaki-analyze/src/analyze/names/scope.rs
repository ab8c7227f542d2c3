//! Scopes: the names that are visible inside a query.

use std::ops::Range;
use std::sync::Arc;

use niwaki_catalog::{Column, Relation, builtin_kind};
use niwaki_expr::context::{ColumnInfo, RecordFields};
use niwaki_expr::expr::{Collation, Expr};
use niwaki_expr::query::{
    AggregateCall, FromItem, ItemKind, JoinTree, SetCall, SlotRange, Window, Windowing,
};
use niwaki_types::{ColumnType, TypeOid};
use pg_query::protobuf::Alias;

use crate::analyze::names::parts::names_of;

/// A window named by the WINDOW clause.
pub(crate) struct NamedWindow {
    pub(crate) name: String,
    pub(crate) window: Window,
    /// True if the definition has no frame clause.
    pub(crate) frame_is_default: bool,
}

/// Names and slots of one query level. The level's row has the columns of all FROM items side by
/// side.
#[derive(Default)]
pub(crate) struct Scope {
    /// FROM items that can be named.
    pub(crate) items: Vec<Item>,
    /// The slots that some expression reads.
    pub(crate) used: Vec<bool>,
    /// Aggregates found in expressions of this level.
    pub(crate) aggregates: Vec<AggregateCall>,
    /// True if a GROUPING call belongs to this level.
    pub(crate) asks_for_sets: bool,
    /// Set-returning functions found in the target list.
    pub(crate) sets: Vec<SetCall>,
    /// The query part that is being analyzed. It decides whether aggregates and set-returning
    /// functions are allowed.
    pub(crate) place: Place,
    /// The kind of call whose arguments are being analyzed.
    pub(crate) within: Within,
    /// Windows, and the functions over them.
    pub(crate) windowing: Windowing,
    /// Windows that the WINDOW clause has named so far.
    pub(crate) window_names: Vec<NamedWindow>,
    /// Names of FROM items that a nested query cannot see, because it is not LATERAL.
    pub(crate) out_of_sight: Vec<String>,
    /// Slots of the left sides of RIGHT and FULL joins whose right sides are being analyzed. A
    /// LATERAL item there cannot read these slots.
    pub(crate) barred: Vec<Range<usize>>,
    /// All FROM items of the query, with or without a name.
    pub(crate) sources: Vec<FromItem>,
}

/// The kind of multi-row call that contains an expression among its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Within {
    #[default]
    Nothing,
    Aggregate,
    Window,
}

impl Within {
    /// Returns the reason why a window function is not allowed here.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Aggregate => {
                Some("aggregate function calls cannot contain window function calls")
            }
            Self::Window => Some("window function calls cannot be nested"),
        }
    }

    pub(crate) fn sqlstate(self) -> &'static str {
        if self == Self::Aggregate { "42803" } else { "42P20" }
    }
}

/// A part of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The target list.
    #[default]
    Target,
    Where,
    JoinCondition,
    From,
    GroupBy,
    Having,
    OrderBy,
    DistinctOn,
    Limit,
    Values,
    Update,
    Returning,
    /// The condition after WHEN of a MERGE
    MergeWhen,
    IndexExpression,
    IndexPredicate,
    /// GENERATED ALWAYS AS (…)
    Generation,
    /// DEFAULT of a column
    Default,
    /// DEFAULT of a function's parameter
    ParameterDefault,
    /// CHECK of a table or a domain
    Check,
    /// WHEN of a trigger
    TriggerWhen,
    /// WHERE of COPY FROM
    CopyWhere,
    /// An assignment in the body of a trigger's function
    Assignment,
    /// A parameter of EXECUTE
    ExecuteParameter,
    /// FOR VALUES of a partition
    PartitionBound,
    /// FILTER of an aggregate
    Filter,
    WindowPartition,
    WindowOrder,
    WindowRows,
    WindowRange,
    WindowGroups,
}

impl Place {
    /// Returns the name of the place in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Target => "SELECT",
            Self::Where => "WHERE",
            Self::JoinCondition => "JOIN conditions",
            Self::From => "functions in FROM",
            Self::GroupBy => "GROUP BY",
            Self::Having => "HAVING",
            Self::OrderBy => "ORDER BY",
            Self::DistinctOn => "DISTINCT ON",
            Self::Limit => "LIMIT",
            Self::Values => "VALUES",
            Self::Update => "UPDATE",
            Self::Returning => "RETURNING",
            Self::MergeWhen => "MERGE WHEN conditions",
            Self::IndexExpression => "index expressions",
            Self::IndexPredicate => "index predicates",
            Self::Generation => "column generation expressions",
            Self::Default => "DEFAULT expressions",
            Self::ParameterDefault => "DEFAULT expressions",
            Self::Check => "check constraints",
            Self::TriggerWhen => "trigger WHEN conditions",
            Self::CopyWhere => "COPY FROM WHERE conditions",
            Self::Assignment => "PL/pgSQL expressions",
            Self::ExecuteParameter => "EXECUTE parameters",
            Self::PartitionBound => "partition bound",
            Self::Filter => "FILTER",
            Self::WindowPartition => "window PARTITION BY",
            Self::WindowOrder => "window ORDER BY",
            Self::WindowRows => "window ROWS",
            Self::WindowRange => "window RANGE",
            Self::WindowGroups => "window GROUPS",
        }
    }

    pub(crate) fn allows_aggregates(self) -> bool {
        let in_window = matches!(self, Self::WindowPartition | Self::WindowOrder);
        matches!(self, Self::Target | Self::Having | Self::OrderBy | Self::DistinctOn) || in_window
    }

    pub(crate) fn allows_windows(self) -> bool {
        matches!(self, Self::Target | Self::OrderBy | Self::DistinctOn)
    }

    /// Returns whether the place is a part of a WINDOW or OVER clause.
    pub(crate) fn is_window(self) -> bool {
        matches!(
            self,
            Self::WindowPartition
                | Self::WindowOrder
                | Self::WindowRows
                | Self::WindowRange
                | Self::WindowGroups
        )
    }

    pub(crate) fn allows_sets(self) -> bool {
        matches!(self, Self::Target | Self::From | Self::OrderBy | Self::DistinctOn)
    }
}

/// One FROM item, or the merged columns of a USING join.
#[derive(Clone)]
pub(crate) struct Item {
    /// Alias or name; empty for merged columns and hidden items.
    pub(crate) name: String,
    /// Schema, when the item is a relation without an alias.
    pub(crate) schema: Option<String>,
    pub(crate) columns: Vec<ItemColumn>,
    /// The relation, for system columns and whole-table needs.
    pub(crate) relation: Option<Arc<Relation>>,
    /// First slot of the item.
    pub(crate) start: usize,
    /// True if the item's name alone means its single column: a function that returns one column.
    pub(crate) lone: bool,
    /// The view whose rows the item has.
    pub(crate) view: Option<Arc<Relation>>,
    /// True if an outer join may produce NULL rows of the item.
    pub(crate) filled: bool,
}

/// One column of a FROM item.
#[derive(Clone)]
pub(crate) struct ItemColumn {
    pub(crate) name: String,
    pub(crate) expr: Expr,
    /// Origin for row descriptions: table OID and attribute number.
    pub(crate) origin: (u32, i16),
    /// True if the column is found by its unqualified name, and is part of `*`.
    pub(crate) bare: bool,
    /// True if the column is found neither by name nor by `*`: a dropped column.
    pub(crate) hidden: bool,
    /// Fields of a `record`, if the query that produces it determines them.
    pub(crate) fields: Option<RecordFields>,
}

/// System columns, in the slots behind a relation's own columns.
pub(crate) const SYSTEM_COLUMNS: [(&str, TypeOid, i16); 3] =
    [("ctid", TypeOid::TID, -1), ("tableoid", TypeOid::OID, -6), ("xmin", TypeOid::XID, -2)];

impl Scope {
    /// Returns the number of slots of the row.
    pub(crate) fn width(&self) -> usize {
        self.used.len()
    }

    /// Adds a row with a relation's columns under a name. If `bare`, the columns are also found by
    /// their unqualified names.
    pub(crate) fn add_record(&mut self, name: &str, relation: &Arc<Relation>, bare: bool) {
        let start = self.width();
        let columns = relation.columns.iter().enumerate().map(|(number, column)| ItemColumn {
            name: column.name.clone(),
            expr: column_of(relation, column, start + number),
            origin: (0, 0),
            bare,
            hidden: column.dropped,
            fields: None,
        });
        let columns: Vec<ItemColumn> = columns.collect();
        self.used.resize(start + columns.len(), false);
        let name = name.to_owned();
        self.items.push(Item {
            name,
            schema: None,
            columns,
            relation: None,
            view: None,
            start,
            lone: false,
            filled: false,
        });
    }

    /// Adds a relation's columns, then its system columns.
    pub(crate) fn add_relation(
        &mut self,
        relation: &Arc<Relation>,
        alias: &str,
        schema: Option<String>,
    ) -> usize {
        let start = self.width();
        let columns = relation
            .columns
            .iter()
            .enumerate()
            .map(|(number, column)| ItemColumn {
                name: column.name.clone(),
                expr: column_of(relation, column, start + number),
                origin: (relation.oid.0, i16::try_from(number + 1).unwrap_or(0)),
                bare: true,
                hidden: column.dropped,
                fields: None,
            })
            .collect();
        self.used.resize(start + relation.columns.len() + SYSTEM_COLUMNS.len(), false);
        self.items.push(Item {
            name: alias.to_owned(),
            schema,
            columns,
            relation: Some(Arc::clone(relation)),
            start,
            lone: false,
            view: None,
            filled: false,
        });
        start
    }

    /// Notes the kind of the newest item, whose slots begin at `start`, its alias, and the user's
    /// view that the item is.
    pub(crate) fn add_source(
        &mut self,
        kind: ItemKind,
        name: String,
        start: usize,
        alias: Option<&Alias>,
        view: Option<Arc<Relation>>,
    ) -> JoinTree {
        let slots = SlotRange { start, end: self.width() };
        let mut names = alias.map(|alias| names_of(&alias.colnames)).unwrap_or_default();
        // An alias in the text of a view may name columns that were dropped since.
        if let Some(item) = self.items.last()
            && let Some(relation) = &item.relation
        {
            let columns = item.columns.iter().zip(&relation.columns);
            let mut named = columns.filter(|(column, _)| !column.hidden).map(|(_, own)| own);
            names.retain(|_| !named.next().is_some_and(|own| own.dropped));
        }
        self.sources.push(FromItem {
            aliases: names.into_iter().map(str::to_owned).collect(),
            aliased: alias.is_some(),
            view,
            ..FromItem::new(kind, name, slots)
        });
        JoinTree::Item(self.sources.len() - 1)
    }

    /// Adds a column outside of any FROM item: the VALUE of a domain's check.
    pub(crate) fn add_value(&mut self, column: ItemColumn) {
        let start = self.width();
        self.used.resize(start + 1, false);
        self.items.push(Item {
            name: String::new(),
            schema: None,
            columns: vec![column],
            relation: None,
            start,
            lone: false,
            view: None,
            filled: false,
        });
    }

    /// Notes that the newest item has ONLY.
    pub(crate) fn note_only(&mut self) {
        if let Some(source) = self.sources.last_mut() {
            source.only = true;
        }
    }

    /// Adds the columns of a nested query, a function or VALUES.
    pub(crate) fn add_columns(&mut self, alias: &str, columns: &[ColumnInfo]) -> usize {
        let start = self.width();
        let columns: Vec<ItemColumn> = columns
            .iter()
            .enumerate()
            .map(|(number, column)| ItemColumn {
                name: column.name.clone(),
                expr: column.at_slot(start + number),
                origin: (column.table, column.attribute),
                bare: true,
                hidden: false,
                fields: column.fields.clone(),
            })
            .collect();
        self.used.resize(start + columns.len(), false);
        self.items.push(Item {
            name: alias.to_owned(),
            schema: None,
            columns,
            relation: None,
            start,
            lone: false,
            view: None,
            filled: false,
        });
        start
    }
}

/// Returns a column of a relation as an expression over a slot.
pub(crate) fn column_of(relation: &Relation, column: &Column, slot: usize) -> Expr {
    let ty = column.column_type().oid;
    let derived = match column.collation {
        // Text columns of PostgreSQL's own tables have the C collation.
        None if relation.is_system() && builtin_kind(relation.oid) == Some("r") => {
            Collation::of_system(ty)
        }
        given => Collation::of_column(given, ty),
    };
    Expr { derived, ..Expr::slot(slot, column.column_type()) }
}

/// Returns a system column of a FROM item as an expression.
pub(crate) fn system_column(item: &Item, name: &str) -> Option<Expr> {
    let relation = item.relation.as_ref()?;
    // Rows of a view have no TID.
    if !relation.kind.has_rows() && name != "tableoid" {
        return None;
    }
    // Scans do not return xmin yet, so it cannot be found here.
    let number = SYSTEM_COLUMNS.iter().position(|(n, ..)| *n == name && *n != "xmin")?;
    let slot = item.start + relation.columns.len() + number;
    Some(Expr::slot(slot, ColumnType::new(SYSTEM_COLUMNS[number].1)))
}
