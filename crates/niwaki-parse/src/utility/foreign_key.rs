//! FOREIGN KEY constraints as given in statements.

use niwaki_catalog::{ConstraintTime, ReferentialAction};
use pg_query::protobuf::Constraint;

use super::read::{relation_name, strings, unexpected};
use super::statement::Name;
use crate::error::{Result, SqlError};

/// FOREIGN KEY (…) REFERENCES …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeySpec {
    /// Referencing columns. For a column constraint, the column itself.
    pub columns: Vec<String>,
    /// The referenced table.
    pub references: Name,
    /// Referenced columns; empty for the primary key.
    pub referenced: Vec<String>,
    /// ON UPDATE
    pub on_update: ReferentialAction,
    /// ON DELETE
    pub on_delete: ReferentialAction,
    /// Columns that ON DELETE sets; empty for all.
    pub set_columns: Vec<String>,
    /// MATCH FULL
    pub match_full: bool,
    /// DEFERRABLE, and INITIALLY DEFERRED.
    pub check_time: ConstraintTime,
}

pub(super) fn foreign_key(
    k: &Constraint,
    check_time: ConstraintTime,
    source: &str,
) -> Result<ForeignKeySpec> {
    if k.fk_with_period || k.pk_with_period {
        return Err(SqlError::unsupported("PERIOD in a foreign key"));
    }
    let match_full = match k.fk_matchtype.as_str() {
        "f" => true,
        "p" => return Err(SqlError::new("0A000", "MATCH PARTIAL not yet implemented")),
        _ => false,
    };
    Ok(ForeignKeySpec {
        columns: strings(&k.fk_attrs),
        references: relation_name(k.pktable.as_ref(), source)?,
        referenced: strings(&k.pk_attrs),
        on_update: action(&k.fk_upd_action)?,
        on_delete: action(&k.fk_del_action)?,
        set_columns: strings(&k.fk_del_set_cols),
        match_full,
        check_time,
    })
}

fn action(letter: &str) -> Result<ReferentialAction> {
    use ReferentialAction as A;
    let all = [A::NoAction, A::Restrict, A::Cascade, A::SetNull, A::SetDefault];
    if letter.is_empty() {
        return Ok(A::NoAction);
    }
    all.into_iter()
        .find(|action| action.letter() == letter)
        .ok_or_else(|| unexpected("a referential action"))
}
