//! FOREIGN KEY constraints as given in statements.

use niwaki_catalog::{ConstraintTime, ReferentialAction};
use pg_query::protobuf::Constraint;

use super::nodes::{relation_name, strings, unexpected};
use crate::error::{Result, SqlError};
use crate::utility::statement::ForeignKeySpec;

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
