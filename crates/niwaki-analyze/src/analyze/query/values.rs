//! Analysis of VALUES.

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::Expr;
use niwaki_expr::query::{Body, Query};
use niwaki_parse::error::Result;
use niwaki_types::{ColumnType, TypeOid};
use pg_query::{NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::names::scope::Place;

impl Analyzer<'_> {
    pub(crate) fn values(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        self.set_place(Place::Values)?;
        let mut columns: Vec<Vec<Expr>> = Vec::new();
        for (number, node) in select.values_lists.iter().enumerate() {
            let Some(NodeEnum::List(list)) = &node.node else { continue };
            let row = self.listed(&list.items)?;
            if number == 0 {
                columns.resize_with(row.len(), Vec::new);
            } else if row.len() != columns.len() {
                let location = row.first().map_or(-1, |e| e.location);
                return Err(self.error(
                    "42601",
                    "VALUES lists must all be the same length",
                    location,
                ));
            }
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let row_count = select.values_lists.len();
        let mut typed = Vec::with_capacity(columns.len());
        for (number, column) in columns.into_iter().enumerate() {
            let all_unknown = column.iter().all(|e| e.ty == TypeOid::UNKNOWN);
            typed.push(match wanted.and_then(|w| w.get(number)) {
                Some(wanted) if all_unknown => column
                    .into_iter()
                    .map(|e| self.to_common(e, wanted.oid, "VALUES"))
                    .collect::<Result<Vec<Expr>>>()?,
                _ if all_unknown && !to_text => column,
                _ => self.unify(column, "VALUES")?,
            });
        }
        let infos: Vec<ColumnInfo> = typed
            .iter()
            .enumerate()
            .map(|(number, column)| {
                let first =
                    column.first().map_or(ColumnType::new(TypeOid::TEXT), Expr::column_type);
                let same = column.iter().all(|e| e.typmod == first.typmod);
                let column_type = if same { first } else { ColumnType::new(first.oid) };
                let derived = column.iter().map(|value| value.derived);
                let derived = self.column_of_values(derived, false, -1)?;
                let info = ColumnInfo::computed(format!("column{}", number + 1), column_type);
                Ok(info.collated(derived))
            })
            .collect::<Result<_>>()?;
        let mut rows = vec![Vec::with_capacity(typed.len()); row_count];
        for column in typed {
            for (row, value) in rows.iter_mut().zip(column) {
                row.push(value);
            }
        }
        self.order_and_limit(select, Body::Values(rows), infos)
    }
}
