//! Writes views as PostgreSQL shows them: the text is made from the analyzed query, with today's
//! names.
//!
//! The query is shown as analysis makes it, before rewriting, so that names follow renames.
//! `query` writes queries, line by line as PostgreSQL does. [`expression`] writes expressions, and
//! asks a [`Level`] for the names of slots.

pub mod expression;
mod from_clause;
pub mod index_text;
mod level;
mod lines;
pub mod plain;
mod query;
mod texts;
mod windows;

use niwaki_catalog::{CatalogState, Relation, SearchPath};
use niwaki_env::stack;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::sessionless;
use niwaki_parse::error::Result;
use niwaki_types::TextSettings;

use crate::analyze::{ViewQuery, view_query};

pub use level::Level;
pub use query::nested;
pub use texts::definitions;

/// Returns the query of a user's view, as PostgreSQL shows it; without needless brackets if
/// `pretty`. Constants are shown in the styles of `styles`, however the user wrote them.
///
/// # Errors
/// Errors of the view's query.
pub fn view_text(
    relation: &Relation,
    catalog: &CatalogState,
    path: &SearchPath,
    pretty: bool,
    styles: &TextSettings,
) -> Result<String> {
    let settings = TextSettings { types: catalog.types_shown(path), ..TextSettings::default() };
    let context =
        AnalyzeContext { catalog, path, text: &settings, ..sessionless::analyze_context(0) };
    let shown = TextSettings { types: catalog.types_shown(path), ..styles.clone() };
    stack::whole(|| {
        let ViewQuery { query, shared } = view_query(relation, &context)?;
        let context = AnalyzeContext { text: &shown, ..context };
        Ok(sessionless::with_names(&context, |exec| query::whole(&query, &shared, pretty, exec)))
    })
}
