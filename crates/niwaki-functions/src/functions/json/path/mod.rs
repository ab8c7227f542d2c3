//! Functions and operators of `jsonpath`.

mod execute;
mod layout;

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, JsonPath, Jsonb};

use super::values::{text, tree, wrong};

use execute::{Found, Interrupts, Query};

/// The arguments of a call.
struct Call<'v> {
    target: &'v Arc<Jsonb>,
    path: JsonPath,
    variables: Option<&'v Arc<Jsonb>>,
    silent: bool,
}

impl<'v> Call<'v> {
    /// Reads the arguments of a function: value, path, and optionally variables and the flag to
    /// pass over errors.
    fn of(values: &'v [Datum]) -> Result<Self> {
        let [target, path, others @ ..] = values else { return Err(wrong()) };
        let variables = others.first().map(tree).transpose()?;
        if variables.is_some_and(|variables| !matches!(**variables, Jsonb::Object(_))) {
            let detail =
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            let message = "\"vars\" argument is not an object";
            return Err(SqlError::new("22023", message).with_detail(detail));
        }
        let silent = matches!(others.get(1), Some(Datum::Bool(true)));
        Ok(Self { target: tree(target)?, path: JsonPath::parse(text(path)?)?, variables, silent })
    }

    /// Reads the operands of an operator. Operators pass over errors.
    fn of_operator(target: &'v Datum, path: &Datum) -> Result<Self> {
        let path = JsonPath::parse(text(path)?)?;
        Ok(Self { target: tree(target)?, path, variables: None, silent: true })
    }

    fn query<'q>(&'q self, functions: bool, interrupts: Interrupts<'q>) -> Query<'q> {
        Query::new(&self.path, self.target, self.variables, self.silent, functions, interrupts)
    }

    fn exists(&self, functions: bool, interrupts: Interrupts<'_>) -> Result<Datum> {
        let mut query = self.query(functions, interrupts);
        // A strict path is computed to its end, where it may still fail.
        let found = if self.path.lax {
            query.run(&mut Found::Any)
        } else {
            let mut found = Vec::new();
            query.run(&mut Found::All(&mut found)).map(|is| is && !found.is_empty())
        };
        Ok(execute::unless_passed_over(found)?.map_or(Datum::Null, Datum::Bool))
    }

    fn all(&self, exec: &mut ExecContext<'_>) -> Result<Vec<Arc<Jsonb>>> {
        let mut found = Vec::new();
        let mut interrupts = || exec.environment.check_interrupts();
        let done = self.query(true, &mut interrupts).run(&mut Found::All(&mut found)).map(|_| ());
        // Items found before a passed-over error are part of the result.
        execute::unless_passed_over(done)?;
        Ok(found)
    }

    fn matches(&self, functions: bool, interrupts: Interrupts<'_>) -> Result<Datum> {
        let mut found = Vec::new();
        let done = self.query(functions, interrupts).run(&mut Found::All(&mut found)).map(|_| ());
        execute::unless_passed_over(done)?;
        if let [one] = found.as_slice() {
            match &**one {
                Jsonb::Bool(value) => return Ok(Datum::Bool(*value)),
                Jsonb::Null => return Ok(Datum::Null),
                _ => {}
            }
        }
        if self.silent {
            return Ok(Datum::Null);
        }
        Err(SqlError::new("22038", "single boolean result is expected"))
    }
}

pub(super) fn exists_operator(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [target, path] = values else { return Err(wrong()) };
    Call::of_operator(target, path)?.exists(false, &mut || exec.environment.check_interrupts())
}

pub(super) fn match_operator(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [target, path] = values else { return Err(wrong()) };
    Call::of_operator(target, path)?.matches(false, &mut || exec.environment.check_interrupts())
}

pub(super) fn exists(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    Call::of(values)?.exists(true, &mut || exec.environment.check_interrupts())
}

pub(super) fn matches(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    Call::of(values)?.matches(true, &mut || exec.environment.check_interrupts())
}

pub(super) fn query(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    Ok(Call::of(values)?.all(exec)?.into_iter().map(Datum::Jsonb).collect())
}

pub(super) fn query_array(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    Ok(Datum::Jsonb(Arc::new(Jsonb::array(Call::of(values)?.all(exec)?)?)))
}

pub(super) fn query_first(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    Ok(Call::of(values)?.all(exec)?.into_iter().next().map_or(Datum::Null, Datum::Jsonb))
}
