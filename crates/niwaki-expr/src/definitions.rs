//! Questions about stored definitions, which functions such as `pg_get_expr` ask. The answers need
//! analysis, and analysis is above the functions.

use std::fmt;
use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation, SearchPath};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ColumnType, TextSettings};

/// The permitted changes of a relation.
#[derive(Clone, Debug, Default)]
pub struct Writable {
    /// True if rows can be deleted.
    pub rows: bool,
    /// The columns that can be assigned.
    pub columns: Vec<bool>,
}

impl Writable {
    /// Returns whether rows can be inserted and updated.
    pub fn values(&self) -> bool {
        self.rows && self.columns.contains(&true)
    }
}

/// Answers to questions about stored definitions. Each text is as PostgreSQL shows it, without
/// needless brackets if `pretty`.
///
/// # Errors
/// The errors of reading a definition again.
pub trait Definitions: fmt::Debug + Send + Sync {
    /// Returns the text of a stored expression over the columns of `relation`. `target` has the
    /// type and the name of the column that gets the value.
    ///
    /// # Errors
    /// The errors of reading the expression again.
    fn expression(
        &self,
        text: &str,
        relation: Option<&Arc<Relation>>,
        target: Option<(ColumnType, &str)>,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> Result<String>;

    /// Returns the text of the check of a domain over values of type `value`.
    ///
    /// # Errors
    /// The errors of reading the check again.
    fn domain_check(
        &self,
        text: &str,
        value: ColumnType,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> Result<String>;

    /// Returns the query of a view. `styles` are the settings for the constants in it.
    ///
    /// # Errors
    /// The errors of reading the query again.
    fn view(
        &self,
        relation: &Relation,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
        styles: &TextSettings,
    ) -> Result<String>;

    /// Returns the WHEN condition of a trigger.
    fn trigger_condition(
        &self,
        text: &str,
        table: &Arc<Relation>,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> String;

    /// Returns the statement that makes an index; `None` for another relation.
    fn index(
        &self,
        catalog: &CatalogState,
        relation: &Relation,
        path: &SearchPath,
        pretty: bool,
    ) -> Option<String>;

    /// Returns the text of a column of an index, which is counted from 1.
    fn index_column(
        &self,
        catalog: &CatalogState,
        relation: &Relation,
        number: usize,
        path: &SearchPath,
        pretty: bool,
    ) -> Option<String>;

    /// Returns the changes that a relation permits.
    fn writable(&self, relation: &Arc<Relation>, catalog: &CatalogState) -> Writable;
}

/// The definitions outside of statements, where only immutable functions run. These functions ask
/// nothing.
#[derive(Debug)]
pub(crate) struct Outside;

fn outside<T>() -> Result<T> {
    Err(SqlError::internal("a definition outside of a statement"))
}

impl Definitions for Outside {
    fn expression(
        &self,
        _: &str,
        _: Option<&Arc<Relation>>,
        _: Option<(ColumnType, &str)>,
        _: &CatalogState,
        _: &SearchPath,
        _: bool,
    ) -> Result<String> {
        outside()
    }

    fn domain_check(
        &self,
        _: &str,
        _: ColumnType,
        _: &CatalogState,
        _: &SearchPath,
        _: bool,
    ) -> Result<String> {
        outside()
    }

    fn view(
        &self,
        _: &Relation,
        _: &CatalogState,
        _: &SearchPath,
        _: bool,
        _: &TextSettings,
    ) -> Result<String> {
        outside()
    }

    fn trigger_condition(
        &self,
        text: &str,
        _: &Arc<Relation>,
        _: &CatalogState,
        _: &SearchPath,
        _: bool,
    ) -> String {
        text.to_owned()
    }

    fn index(&self, _: &CatalogState, _: &Relation, _: &SearchPath, _: bool) -> Option<String> {
        None
    }

    fn index_column(
        &self,
        _: &CatalogState,
        _: &Relation,
        _: usize,
        _: &SearchPath,
        _: bool,
    ) -> Option<String> {
        None
    }

    fn writable(&self, _: &Arc<Relation>, _: &CatalogState) -> Writable {
        Writable::default()
    }
}
