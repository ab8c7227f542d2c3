//! Messages to the client, appended to the output buffer.

/// Starts a message of type `kind`. [`finish`] fills in its length.
fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

/// Fills in the length of the message whose length word is at `at`.
fn finish(out: &mut [u8], at: usize) {
    // A message holds only data that the server produced: below 1 GiB by the limits on values.
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn cstring(out: &mut Vec<u8>, text: &str) {
    // A zero byte inside would end the string early. PostgreSQL text has none.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let at = begin(out, kind);
    body(out);
    finish(out, at);
}

/// Appends a count of columns or parameters, which is below 65,536 by the limits of SQL.
fn count(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
}

/// Appends `AuthenticationOk`.
pub(crate) fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
}

pub(crate) fn backend_key_data(out: &mut Vec<u8>, process_id: i32, secret: u32) {
    message(out, b'K', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
}

/// Appends `NegotiateProtocolVersion`. `version` is the newest one, its major number in the upper
/// half.
pub(crate) fn negotiate_protocol_version(out: &mut Vec<u8>, version: u32, unknown: &[&str]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&version.to_be_bytes());
        let number = u32::try_from(unknown.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&number.to_be_bytes());
        for name in unknown {
            cstring(out, name);
        }
    });
}

pub(crate) fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        cstring(out, name);
        cstring(out, value);
    });
}

pub(crate) fn ready_for_query(out: &mut Vec<u8>, status: u8) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

pub(crate) fn notification(out: &mut Vec<u8>, sender: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.extend_from_slice(&sender.to_be_bytes());
        cstring(out, channel);
        cstring(out, payload);
    });
}

pub(crate) fn parse_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'1', 0, 0, 0, 4]);
}

pub(crate) fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'2', 0, 0, 0, 4]);
}

pub(crate) fn close_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'3', 0, 0, 0, 4]);
}

pub(crate) fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'n', 0, 0, 0, 4]);
}

pub(crate) fn portal_suspended(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b's', 0, 0, 0, 4]);
}

pub(crate) fn empty_query(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'I', 0, 0, 0, 4]);
}

pub(crate) fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| cstring(out, tag));
}

pub(crate) fn parameter_description(out: &mut Vec<u8>, types: impl ExactSizeIterator<Item = u32>) {
    message(out, b't', |out| {
        count(out, types.len());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// One column of a `RowDescription`.
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) table: u32,
    pub(crate) attribute: i16,
    pub(crate) type_oid: u32,
    pub(crate) type_size: i16,
    pub(crate) typmod: i32,
    pub(crate) format: i16,
}

pub(crate) fn row_description<'a>(
    out: &mut Vec<u8>,
    fields: impl ExactSizeIterator<Item = Field<'a>>,
) {
    message(out, b'T', |out| {
        count(out, fields.len());
        for field in fields {
            cstring(out, field.name);
            out.extend_from_slice(&field.table.to_be_bytes());
            out.extend_from_slice(&field.attribute.to_be_bytes());
            out.extend_from_slice(&field.type_oid.to_be_bytes());
            out.extend_from_slice(&field.type_size.to_be_bytes());
            out.extend_from_slice(&field.typmod.to_be_bytes());
            out.extend_from_slice(&field.format.to_be_bytes());
        }
    });
}

/// Appends a `DataRow` of `columns` values. `write` appends value `i` and returns true, or appends
/// nothing and returns false for NULL. After an error the whole message is removed.
pub(crate) fn data_row<E>(
    out: &mut Vec<u8>,
    columns: usize,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
) -> Result<(), E> {
    let at = begin(out, b'D');
    count(out, columns);
    for column in 0..columns {
        let length_at = out.len();
        out.extend_from_slice(&[0xff; 4]);
        match write(column, out) {
            Ok(true) => {
                let length = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX);
                out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
            }
            Ok(false) => {}
            Err(error) => {
                out.truncate(at - 1);
                return Err(error);
            }
        }
    }
    finish(out, at);
    Ok(())
}

/// Appends `CopyInResponse` (`b'G'`) or `CopyOutResponse` (`b'H'`).
pub(crate) fn copy_response(out: &mut Vec<u8>, kind: u8, binary: bool, columns: usize) {
    message(out, kind, |out| {
        out.push(binary.into());
        count(out, columns);
        for _ in 0..columns {
            out.extend_from_slice(&[0, binary.into()]);
        }
    });
}

pub(crate) fn copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(bytes));
}

pub(crate) fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'c', 0, 0, 0, 4]);
}

/// Appends `ErrorResponse` (`b'E'`) or `NoticeResponse` (`b'N'`) from its fields: code and text.
pub(crate) fn report(out: &mut Vec<u8>, kind: u8, fields: &[(u8, &str)]) {
    message(out, kind, |out| {
        for (code, text) in fields {
            out.push(*code);
            cstring(out, text);
        }
        out.push(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_row_has_lengths_and_nulls() {
        let mut out = vec![b'x'];
        data_row(&mut out, 2, |i, out| {
            if i == 0 {
                out.extend_from_slice(b"ab");
            }
            Ok::<_, ()>(i == 0)
        })
        .unwrap();
        assert_eq!(out, b"xD\0\0\0\x10\0\x02\0\0\0\x02ab\xff\xff\xff\xff");
    }

    #[test]
    fn a_failed_value_takes_the_row_back() {
        let mut out = b"before".to_vec();
        assert_eq!(data_row(&mut out, 3, |i, _| if i == 2 { Err(7) } else { Ok(true) }), Err(7));
        assert_eq!(out, b"before");
    }

    #[test]
    fn zero_bytes_cannot_end_a_string_early() {
        let mut out = Vec::new();
        report(&mut out, b'E', &[(b'M', "a\0b")]);
        assert_eq!(out, b"E\0\0\0\x09Mab\0\0");
    }
}
