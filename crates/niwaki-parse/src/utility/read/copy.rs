//! Reading of COPY.

use pg_query::protobuf::{CopyStmt, DefElem};
use pg_query::{Node, NodeEnum};

use super::nodes::{elements, expression_text, relation_name, string_of, strings, switch_of};
use crate::error::{Result, SqlError};
use crate::parse::{part, position_of};
use crate::utility::statement::{ColumnChoice, Copy, CopyDirection, CopyOptions, CopySource, Csv};

pub(super) fn copy(s: &CopyStmt, source: &str) -> Result<Copy> {
    if s.is_program {
        return Err(SqlError::unsupported("COPY with PROGRAM"));
    }
    let direction = if s.is_from { CopyDirection::From } else { CopyDirection::To };
    let what = if let Some(query) = s.query.as_deref().and_then(|n| n.node.as_ref()) {
        if makes_table(query) {
            return Err(SqlError::new("0A000", "COPY (SELECT INTO) is not supported"));
        }
        CopySource::Query(part(query, source))
    } else {
        CopySource::Table {
            name: relation_name(s.relation.as_ref(), source)?,
            columns: strings(&s.attlist),
        }
    };
    let options = options(&s.options, direction, source)?;
    let file = (!s.filename.is_empty()).then(|| s.filename.clone());
    let condition = s.where_clause.as_deref().map(expression_text).transpose()?;
    Ok(Copy { source: what, direction, file, options, condition })
}

/// Returns whether the query is a SELECT INTO. In a set operation, the first query has the clause.
fn makes_table(query: &NodeEnum) -> bool {
    let NodeEnum::SelectStmt(select) = query else { return false };
    let mut first = select;
    while let Some(left) = &first.larg {
        first = left;
    }
    first.into_clause.is_some()
}

/// The format options as given, before they are checked together.
#[derive(Default)]
struct Said {
    csv: bool,
    binary: bool,
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<ColumnChoice>,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
    header: bool,
    freeze: bool,
}

fn options(list: &[Node], direction: CopyDirection, source: &str) -> Result<CopyOptions> {
    let mut said = Said::default();
    for e in elements(list) {
        let at = |error: SqlError| error.with_position(position_of(source, e.location));
        let text = || Some(string_of(e).unwrap_or_default());
        match e.defname.as_str() {
            "format" => match string_of(e).as_deref() {
                Some("text") => {}
                Some("csv") => said.csv = true,
                Some("binary") => said.binary = true,
                other => {
                    let message =
                        format!("COPY format \"{}\" not recognized", other.unwrap_or_default());
                    return Err(at(SqlError::new("22023", message)));
                }
            },
            "delimiter" => said.delimiter = text(),
            "null" => said.null = text(),
            "quote" => said.quote = text(),
            "escape" => said.escape = text(),
            "force_quote" => said.force_quote = Some(columns(e)),
            "force_not_null" => said.force_not_null = Some(strings(listed(e))),
            "force_null" => said.force_null = Some(strings(listed(e))),
            "header" if string_of(e).is_some_and(|text| text.eq_ignore_ascii_case("match")) => {
                return Err(at(SqlError::unsupported("COPY … HEADER MATCH")));
            }
            "header" => said.header = switch_of(e).map_err(at)?,
            "freeze" => said.freeze = switch_of(e).map_err(at)?,
            "encoding" => {
                let name = string_of(e).unwrap_or_default();
                if !matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode") {
                    return Err(at(SqlError::unsupported(format!("COPY encoding \"{name}\""))));
                }
            }
            other @ ("default" | "on_error" | "log_verbosity" | "reject_limit") => {
                return Err(at(SqlError::unsupported(format!("COPY option {other}"))));
            }
            other => {
                let message = format!("option \"{other}\" not recognized");
                return Err(at(SqlError::new("42601", message)));
            }
        }
    }
    said.together(direction)
}

/// Returns the nodes of an option that is a list.
fn listed(e: &DefElem) -> &[Node] {
    match e.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::List(list)) => &list.items,
        _ => &[],
    }
}

fn columns(e: &DefElem) -> ColumnChoice {
    match e.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::AStar(_)) => ColumnChoice::All,
        _ => ColumnChoice::Named(strings(listed(e))),
    }
}

fn unfit(message: impl Into<String>) -> SqlError {
    SqlError::new("0A000", message)
}

/// Reads an option of one byte.
fn byte(name: &str, text: &str) -> Result<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(unfit(format!("COPY {name} must be a single one-byte character"))),
    }
}

impl Said {
    /// Checks the combination of the options, in PostgreSQL's order.
    fn together(self, direction: CopyDirection) -> Result<CopyOptions> {
        let invalid = |message: String| SqlError::new("22023", message);
        let given = [("DELIMITER", self.delimiter.is_some()), ("NULL", self.null.is_some())];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given && self.binary) {
            let message = format!("cannot specify {name} in BINARY mode");
            return Err(SqlError::new("42601", message));
        }
        let given = self.delimiter.unwrap_or(if self.csv { "," } else { "\t" }.to_owned());
        let delimiter = byte("delimiter", &given)?;
        if matches!(delimiter, b'\r' | b'\n') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return".to_owned()));
        }
        let null = self.null.unwrap_or(if self.csv { "" } else { "\\N" }.to_owned());
        if null.contains(['\r', '\n']) {
            let message = "COPY null representation cannot use newline or carriage return";
            return Err(invalid(message.to_owned()));
        }
        if !self.csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
            return Err(invalid(format!("COPY delimiter cannot be \"{given}\"")));
        }
        if self.binary && self.header {
            return Err(unfit("cannot specify HEADER in BINARY mode"));
        }
        let only_for_csv = [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("force quote", self.force_quote.is_some()),
            ("force not null", self.force_not_null.is_some()),
            ("force null", self.force_null.is_some()),
        ];
        if let Some((name, _)) = only_for_csv.iter().find(|(_, given)| *given && !self.csv) {
            return Err(unfit(format!("COPY {name} available only in CSV mode")));
        }
        let quote = self.quote.map_or(Ok(b'"'), |text| byte("quote", &text))?;
        if self.csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different".to_owned()));
        }
        let escape = self.escape.map_or(Ok(quote), |text| byte("escape", &text))?;
        if self.force_quote.is_some() && direction == CopyDirection::From {
            return Err(unfit("COPY force quote only available using COPY TO"));
        }
        let only_from = [("not null", &self.force_not_null), ("null", &self.force_null)];
        let misplaced = only_from.iter().find(|(_, given)| given.is_some());
        if let Some((name, _)) = misplaced.filter(|_| direction == CopyDirection::To) {
            return Err(unfit(format!("COPY force {name} only available using COPY FROM")));
        }
        if null.as_bytes().contains(&delimiter) {
            return Err(unfit("COPY delimiter must not appear in the NULL specification"));
        }
        if self.csv && null.as_bytes().contains(&quote) {
            return Err(unfit("CSV quote character must not appear in the NULL specification"));
        }
        if self.freeze && direction == CopyDirection::To {
            return Err(unfit("COPY FREEZE cannot be used with COPY TO"));
        }
        let csv = self.csv.then(|| Csv {
            quote,
            escape,
            force_quote: self.force_quote.unwrap_or(ColumnChoice::Named(Vec::new())),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        });
        let (header, freeze, binary) = (self.header, self.freeze, self.binary);
        Ok(CopyOptions { delimiter, null, header, freeze, csv, binary })
    }
}
