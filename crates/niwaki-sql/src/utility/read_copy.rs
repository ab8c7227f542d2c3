//! COPY.

use std::sync::Arc;

use pg_query::protobuf::CopyStmt;

use super::read::{elements, relation_name, string_of, strings, switch_of};
use super::statement::{Copy, CopyDirection, CopyOptions, CopySource};
use crate::error::{Result, SqlError};
use crate::parse::position_of;

pub(super) fn copy(s: &CopyStmt, source: &str) -> Result<Copy> {
    if s.is_program {
        return Err(SqlError::unsupported("COPY with PROGRAM"));
    }
    if s.where_clause.is_some() {
        return Err(SqlError::unsupported("COPY … WHERE"));
    }
    let direction = if s.is_from { CopyDirection::From } else { CopyDirection::To };
    let what = if let Some(query) = s.query.as_deref().and_then(|n| n.node.as_ref()) {
        CopySource::Query(Arc::new(query.clone()))
    } else {
        CopySource::Table {
            name: relation_name(s.relation.as_ref(), source)?,
            columns: strings(&s.attlist),
        }
    };
    let mut options =
        CopyOptions { delimiter: b'\t', null: "\\N".to_owned(), header: false, freeze: false };
    for e in elements(&s.options) {
        let at = |error: SqlError| error.with_position(position_of(source, e.location));
        match e.defname.as_str() {
            "format" => match string_of(e).as_deref() {
                Some("text") => {}
                Some(other @ ("csv" | "binary")) => {
                    return Err(at(SqlError::unsupported(format!("COPY format {other}"))));
                }
                other => {
                    let other = other.unwrap_or_default();
                    return Err(at(SqlError::new(
                        "22023",
                        format!("COPY format \"{other}\" not recognized"),
                    )));
                }
            },
            "delimiter" => {
                let text = string_of(e).unwrap_or_default();
                let [byte] = text.as_bytes() else {
                    return Err(at(SqlError::new(
                        "0A000",
                        "COPY delimiter must be a single one-byte character",
                    )));
                };
                if b"\\.abcdefghijklmnopqrstuvwxyz0123456789\r\n".contains(byte) {
                    return Err(at(SqlError::new(
                        "22023",
                        format!("COPY delimiter cannot be \"{text}\""),
                    )));
                }
                options.delimiter = *byte;
            }
            "null" => {
                let text = string_of(e).unwrap_or_default();
                if text.contains(['\r', '\n']) {
                    return Err(at(SqlError::new(
                        "22023",
                        "COPY null representation cannot use newline or carriage return",
                    )));
                }
                options.null = text;
            }
            "header" => options.header = switch_of(e).map_err(at)?,
            "freeze" => options.freeze = switch_of(e).map_err(at)?,
            "encoding" => {
                let name = string_of(e).unwrap_or_default();
                if !matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode") {
                    return Err(at(SqlError::unsupported(format!("COPY encoding \"{name}\""))));
                }
            }
            other @ ("quote" | "escape" | "force_quote" | "force_not_null" | "force_null"
            | "default" | "on_error" | "log_verbosity" | "reject_limit") => {
                return Err(at(SqlError::unsupported(format!("COPY option {other}"))));
            }
            other => {
                return Err(at(SqlError::new(
                    "42601",
                    format!("option \"{other}\" not recognized"),
                )));
            }
        }
    }
    if options.null.as_bytes().contains(&options.delimiter) {
        return Err(SqlError::new(
            "22023",
            "COPY delimiter must not appear in the NULL specification",
        ));
    }
    if options.freeze && direction == CopyDirection::To {
        return Err(SqlError::new("0A000", "COPY FREEZE cannot be used with COPY TO"));
    }
    let file = (!s.filename.is_empty()).then(|| s.filename.clone());
    Ok(Copy { source: what, direction, file, options })
}
