//! Names of parameters in function bodies.

use niwaki_expr::expr::Expr;
use niwaki_parse::error::Result;
use pg_query::protobuf;

use crate::analyze::Analyzer;

use crate::analyze::names::parts::names_of;

impl Analyzer<'_> {
    /// Resolves a name that is no column as a parameter of the enclosing function, or a field of
    /// one: `a`, `f.a`, `a.field`, `f.a.field`.
    pub(crate) fn parameter_named(&mut self, column: &protobuf::ColumnRef) -> Result<Option<Expr>> {
        let Some(routine) = &self.routine else { return Ok(None) };
        let names = names_of(&column.fields);
        if names.len() < column.fields.len() {
            return Ok(None);
        }
        let of_function = |name: &str| name == routine.name;
        let (number, fields) = match names.as_slice() {
            [function, name, fields @ ..]
                if of_function(function) && routine.number(name).is_some() =>
            {
                (routine.number(name), fields)
            }
            [name, fields @ ..] => (routine.number(name), fields),
            [] => (None, &[][..]),
        };
        let (Some(number), true) = (number, fields.len() < 2) else { return Ok(None) };
        let number = i32::try_from(number + 1).unwrap_or(i32::MAX);
        let value = self.param(number, column.location)?;
        match fields.first() {
            None => Ok(Some(value)),
            Some(field) => self.field(value, field).map(Some),
        }
    }
}
