//! Visible WITH queries, and the recursive queries that are being analyzed.

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::query::Query;
use niwaki_parse::tree::Tree;
use pg_query::protobuf;

/// A visible WITH query.
pub(crate) struct Cte {
    pub(crate) name: String,
    /// Number of the query among the statement's WITH queries.
    pub(crate) number: usize,
    pub(crate) columns: Vec<ColumnInfo>,
    pub(crate) state: CteState,
    /// Range of the queries of the same WITH clause among all visible queries.
    pub(crate) list: (usize, usize),
    /// Number of query levels around the WITH clause.
    pub(crate) level: usize,
}

pub(crate) enum CteState {
    Known,
    /// The query reads rows of queries around its WITH clause. It is computed where it is named,
    /// for each of these rows.
    Dependent {
        query: Query,
        named: bool,
    },
    /// The query changes data and returns nothing.
    Silent,
    /// Not analyzed yet, since no query has named it.
    Pending(Tree<protobuf::CommonTableExpr>),
    /// The query is being analyzed.
    Begun,
}

/// A query of WITH RECURSIVE that is being analyzed.
pub(crate) struct Recursion {
    /// Index of the query among the visible queries. `list` identifies its WITH clause.
    pub(crate) cte: usize,
    pub(crate) list: usize,
    pub(crate) form: Form,
    pub(crate) location: i32,
    /// Number of references of the query to itself.
    pub(crate) references: usize,
    /// Number of contexts around the query.
    pub(crate) contexts: usize,
}

/// A query part in which recursive queries must not name themselves.
pub(crate) struct Context {
    pub(crate) part: &'static str,
    /// The only query that the context applies to, by its index; `None` for all.
    pub(crate) of: Option<usize>,
}

/// The statement kind of a WITH RECURSIVE query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Union,
    /// A query that cannot name itself.
    Other,
    /// INSERT, UPDATE or DELETE.
    Change,
}
