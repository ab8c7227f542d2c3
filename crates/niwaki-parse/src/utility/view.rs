//! CREATE VIEW.

use std::sync::Arc;

use niwaki_catalog::CheckOption;
use niwaki_env::stack::Deep;
use pg_query::NodeEnum;
use pg_query::protobuf::{ViewCheckOption, ViewStmt};

use super::read::{options, persistence, relation_name, strings, unexpected};
use super::statement::{Name, Utility};
use super::table::Persistence;
use crate::error::{Result, SqlError};
use crate::parse::part;

/// CREATE VIEW
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Name.
    pub name: Name,
    /// OR REPLACE
    pub replace: bool,
    /// TEMPORARY.
    pub persistence: Persistence,
    /// Names of the first columns.
    pub columns: Vec<String>,
    /// The query, a `SelectStmt`.
    pub query: Arc<Deep<NodeEnum>>,
    /// WITH options.
    pub options: Vec<(String, Option<String>)>,
    /// WITH CHECK OPTION
    pub check: Option<CheckOption>,
}

pub(super) fn create_view(s: &ViewStmt, source: &str) -> Result<Utility> {
    let query = s.query.as_ref().and_then(|node| node.node.as_ref());
    let query = query.ok_or_else(|| unexpected("CREATE VIEW"))?;
    if !matches!(query, NodeEnum::SelectStmt(_)) {
        return Err(unexpected("CREATE VIEW"));
    }
    let persistence = persistence(s.view.as_ref());
    if persistence == Persistence::Unlogged {
        let message = "views cannot be unlogged because they do not have storage";
        return Err(SqlError::new("42601", message));
    }
    Ok(Utility::CreateView(Box::new(CreateView {
        name: relation_name(s.view.as_ref(), source)?,
        replace: s.replace,
        persistence,
        columns: strings(&s.aliases),
        query: part(query, source),
        options: options(&s.options),
        check: match s.with_check_option() {
            ViewCheckOption::LocalCheckOption => Some(CheckOption::Local),
            ViewCheckOption::CascadedCheckOption => Some(CheckOption::Cascaded),
            _ => None,
        },
    })))
}
