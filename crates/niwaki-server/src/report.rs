//! Encoding of errors and notices as the fields of an `ErrorResponse` or `NoticeResponse`.

use niwaki::SqlError;

use crate::wire::backend;
use crate::wire::frontend::ProtocolError;

/// Appends `error` as an `ErrorResponse` (`b'E'`) or `NoticeResponse` (`b'N'`).
pub(crate) fn append(out: &mut Vec<u8>, kind: u8, error: &SqlError) {
    let severity = if kind == b'E' { "ERROR" } else { error.severity.as_str() };
    append_as(out, kind, severity, error);
}

/// Appends `error` as an `ErrorResponse` that ends the session.
pub(crate) fn append_fatal(out: &mut Vec<u8>, error: &SqlError) {
    append_as(out, b'E', "FATAL", error);
}

fn append_as(out: &mut Vec<u8>, kind: u8, severity: &str, error: &SqlError) {
    let position = error.position.map(|position| position.to_string());
    let all = [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(error.sqlstate)),
        (b'M', Some(error.message.as_str())),
        (b'D', error.detail.as_deref()),
        (b'H', error.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'W', error.context.as_deref()),
        (b's', error.schema.as_deref()),
        (b't', error.table.as_deref()),
        (b'c', error.column.as_deref()),
        (b'd', error.data_type.as_deref()),
        (b'n', error.constraint.as_deref()),
    ];
    let mut fields = Vec::with_capacity(all.len());
    fields.extend(all.iter().filter_map(|(code, text)| text.map(|text| (*code, text))));
    backend::report(out, kind, &fields);
}

/// Converts a protocol error to the library's form.
pub(crate) fn protocol(error: ProtocolError) -> SqlError {
    SqlError::new(error.sqlstate, error.message)
}
