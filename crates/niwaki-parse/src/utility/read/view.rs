//! CREATE VIEW.

use niwaki_catalog::CheckOption;
use pg_query::NodeEnum;
use pg_query::protobuf::{ViewCheckOption, ViewStmt};

use super::nodes::{options, persistence, relation_name, strings, unexpected};
use crate::error::{Result, SqlError};
use crate::parse::part;
use crate::utility::statement::{CreateView, Persistence, Utility};

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
