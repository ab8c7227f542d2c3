//! The answers to questions of functions about stored definitions.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation, SearchPath};
use niwaki_expr::definitions::{Definitions, Writable};
use niwaki_parse::error::Result;
use niwaki_types::{ColumnType, TextSettings};

use super::expression::{deparse_domain_check, show, trigger_condition};
use super::index_text::{column_text, definition_text};
use super::view_text;

/// Returns the answers to questions about stored definitions, for [`ExecContext::definitions`].
///
/// [`ExecContext::definitions`]: niwaki_expr::context::ExecContext::definitions
pub fn definitions() -> &'static dyn Definitions {
    &Texts
}

/// Reads definitions again, and shows them.
#[derive(Debug)]
struct Texts;

impl Definitions for Texts {
    fn expression(
        &self,
        text: &str,
        relation: Option<&Arc<Relation>>,
        target: Option<(ColumnType, &str)>,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> Result<String> {
        show(text, relation, target, catalog, path, pretty)
    }

    fn domain_check(
        &self,
        text: &str,
        value: ColumnType,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> Result<String> {
        deparse_domain_check(text, value, catalog, path, pretty)
    }

    fn view(
        &self,
        relation: &Relation,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
        styles: &TextSettings,
    ) -> Result<String> {
        view_text(relation, catalog, path, pretty, styles)
    }

    fn trigger_condition(
        &self,
        text: &str,
        table: &Arc<Relation>,
        catalog: &CatalogState,
        path: &SearchPath,
        pretty: bool,
    ) -> String {
        trigger_condition(text, table, catalog, path, pretty)
    }

    fn index(
        &self,
        catalog: &CatalogState,
        relation: &Relation,
        path: &SearchPath,
        pretty: bool,
    ) -> Option<String> {
        definition_text(catalog, relation, path, pretty)
    }

    fn index_column(
        &self,
        catalog: &CatalogState,
        relation: &Relation,
        number: usize,
        path: &SearchPath,
        pretty: bool,
    ) -> Option<String> {
        column_text(catalog, relation, number, path, pretty)
    }

    fn writable(&self, relation: &Arc<Relation>, catalog: &CatalogState) -> Writable {
        crate::analyze::writable(relation, catalog)
    }
}
