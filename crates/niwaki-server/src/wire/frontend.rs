//! Messages from the client, decoded by borrowing from the input buffer.
//!
//! Every count and length is checked against the bytes that are there before it is used; nothing
//! is allocated here, and no input can make these functions panic
//! (`docs/decisions/0001-own-wire-codec.md`).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::str;

/// Largest start-up packet, in bytes (PostgreSQL's limit).
pub(crate) const STARTUP_MAX_BYTES: usize = 10_000;
/// Largest message that carries no query, value or COPY data, in bytes.
const SMALL_MAX_BYTES: usize = 10_000;
/// Largest message of any kind, in bytes: memory is taken as bytes arrive, never ahead of them.
const LARGE_MAX_BYTES: usize = 64 << 20;

const PROTOCOL_SSL_REQUEST: u32 = 80_877_103;
const PROTOCOL_GSS_REQUEST: u32 = 80_877_104;
const PROTOCOL_CANCEL: u32 = 80_877_102;

/// What is wrong with a message; the session answers with it and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError {
    /// `08P01`, or `22021` for text that is not UTF-8, or `54000` for a message over the limit.
    pub(crate) sqlstate: &'static str,
    /// What was found.
    pub(crate) message: String,
}

impl ProtocolError {
    fn violation(message: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", message: message.into() }
    }
}

type Result<T> = std::result::Result<T, ProtocolError>;

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Startup<'a> {
    /// May we speak TLS?
    SslRequest,
    /// May we speak GSSAPI encryption?
    GssRequest,
    /// Cancel what another session runs.
    Cancel { process_id: u32, secret: &'a [u8] },
    /// Begin a session.
    Session { major: u16, minor: u16, parameters: Parameters<'a> },
}

/// Name and value pairs of a start-up packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters<'a>(&'a [u8]);

impl<'a> Parameters<'a> {
    /// The pairs in the order sent.
    ///
    /// # Errors
    /// A pair without terminator, or not UTF-8.
    pub(crate) fn pairs(self) -> Result<Vec<(&'a str, &'a str)>> {
        let mut reader = Reader { bytes: self.0 };
        let mut pairs = Vec::new();
        loop {
            let name = reader.cstring()?;
            if name.is_empty() {
                return Ok(pairs);
            }
            pairs.push((name, reader.cstring()?));
        }
    }
}

/// Decodes the first packet from the front of `input`; `None` while it is not complete. The second
/// value is how many bytes it took.
///
/// # Errors
/// [`ProtocolError`] on a length out of range or a malformed body.
pub(crate) fn decode_startup(input: &[u8]) -> Result<Option<(Startup<'_>, usize)>> {
    let mut reader = Reader { bytes: input };
    let Some(length) = reader.peek_u32() else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if !(8..=STARTUP_MAX_BYTES).contains(&length) {
        return Err(ProtocolError::violation("invalid length of startup packet"));
    }
    let Some(packet) = input.get(..length) else { return Ok(None) };
    reader.bytes = packet;
    reader.u32()?;
    let code = reader.u32()?;
    let message = match code {
        PROTOCOL_SSL_REQUEST => Startup::SslRequest,
        PROTOCOL_GSS_REQUEST => Startup::GssRequest,
        PROTOCOL_CANCEL => {
            let process_id = reader.u32()?;
            if reader.bytes.is_empty() || reader.bytes.len() > 256 {
                return Err(ProtocolError::violation("invalid length of cancel key"));
            }
            Startup::Cancel { process_id, secret: reader.bytes }
        }
        _ => Startup::Session {
            major: u16::try_from(code >> 16).unwrap_or(u16::MAX),
            minor: u16::try_from(code & 0xffff).unwrap_or(u16::MAX),
            parameters: Parameters(reader.bytes),
        },
    };
    Ok(Some((message, length)))
}

/// A message of an established session.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        query: &'a str,
        types: Integers<'a>,
    },
    Bind(Bind<'a>),
    DescribeStatement(&'a str),
    DescribePortal(&'a str),
    Execute {
        portal: &'a str,
        max_rows: i32,
    },
    CloseStatement(&'a str),
    ClosePortal(&'a str),
    Flush,
    Sync,
    Terminate,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// A function call, which Niwaki refuses by name.
    FunctionCall,
    /// A password or SASL message, which nobody asked for.
    Password,
}

/// The parts of a Bind message.
#[derive(Debug, PartialEq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    /// Format codes of the parameters: none (all text), one (for all), or one each.
    pub(crate) parameter_formats: Integers<'a>,
    /// The values.
    pub(crate) parameters: Values<'a>,
    /// Format codes of the result columns, by the same rule.
    pub(crate) result_formats: Integers<'a>,
}

/// A counted list of integers of 2 or 4 bytes, still in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integers<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Integers<'a> {
    pub(crate) fn len(self) -> usize {
        self.bytes.len().checked_div(self.width).unwrap_or(0)
    }

    /// The numbers, as unsigned.
    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.bytes
            .chunks_exact(self.width)
            .map(|chunk| chunk.iter().fold(0u32, |acc, byte| (acc << 8) | u32::from(*byte)))
    }
}

/// A counted list of values, each `None` for NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Values<'a> {
    pub(crate) fn len(self) -> usize {
        self.count
    }

    /// The values in order. Lengths were checked when the message was decoded.
    pub(crate) fn iter(self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut reader = Reader { bytes: self.bytes };
        (0..self.count).map(move |_| reader.value().unwrap_or(None))
    }
}

/// Decodes one message from the front of `input`; `None` while it is not complete. The second
/// value is how many bytes it took. A body is read strictly inside its own length.
///
/// # Errors
/// [`ProtocolError`] on an unknown type, a length out of range, or a malformed body.
pub(crate) fn decode(input: &[u8]) -> Result<Option<(Message<'_>, usize)>> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    let limit = match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => LARGE_MAX_BYTES,
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => SMALL_MAX_BYTES,
        other => {
            return Err(ProtocolError::violation(format!("invalid frontend message type {other}")));
        }
    };
    let Some(length) = (Reader { bytes: rest }).peek_u32() else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length < 4 {
        return Err(ProtocolError::violation("invalid message length"));
    }
    if length > limit {
        return Err(ProtocolError {
            sqlstate: if limit == LARGE_MAX_BYTES { "54000" } else { "08P01" },
            message: format!(
                "message of type {:?} is too long: {length} bytes, the limit is {limit}",
                char::from(kind)
            ),
        });
    }
    let Some(body) = rest.get(4..length) else { return Ok(None) };
    let mut reader = Reader { bytes: body };
    let message = match kind {
        b'Q' => Message::Query(reader.cstring()?),
        b'P' => Message::Parse {
            name: reader.cstring()?,
            query: reader.cstring()?,
            types: reader.integers(4)?,
        },
        b'B' => Message::Bind(Bind {
            portal: reader.cstring()?,
            statement: reader.cstring()?,
            parameter_formats: reader.integers(2)?,
            parameters: reader.values()?,
            result_formats: reader.integers(2)?,
        }),
        b'D' | b'C' => {
            let target = reader.u8()?;
            let name = reader.cstring()?;
            match (kind, target) {
                (b'D', b'S') => Message::DescribeStatement(name),
                (b'D', b'P') => Message::DescribePortal(name),
                (b'C', b'S') => Message::CloseStatement(name),
                (b'C', b'P') => Message::ClosePortal(name),
                (b'D', other) => {
                    return Err(ProtocolError::violation(format!(
                        "invalid DESCRIBE message subtype {other}"
                    )));
                }
                (_, other) => {
                    return Err(ProtocolError::violation(format!(
                        "invalid CLOSE message subtype {other}"
                    )));
                }
            }
        }
        b'E' => Message::Execute {
            portal: reader.cstring()?,
            max_rows: i32::from_be_bytes(reader.u32()?.to_be_bytes()),
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(reader.cstring()?),
        b'd' => Message::CopyData(reader.take_rest()),
        b'F' => {
            reader.take_rest();
            Message::FunctionCall
        }
        _ => {
            reader.take_rest();
            Message::Password
        }
    };
    if !reader.bytes.is_empty() {
        return Err(ProtocolError::violation("invalid message format"));
    }
    // The type byte and the length word's own value: at most the limit checked above.
    Ok(Some((message, length.saturating_add(1))))
}

/// Takes fields from the front of a message body.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| ProtocolError::violation("insufficient data left in message"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn peek_u32(&self) -> Option<u32> {
        self.bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    fn u16(&mut self) -> Result<u16> {
        let bytes = self.take(2)?;
        Ok(bytes.iter().fold(0, |acc, byte| (acc << 8) | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |acc, byte| (acc << 8) | u32::from(*byte)))
    }

    /// A string up to its terminating zero byte.
    fn cstring(&mut self) -> Result<&'a str> {
        let end = self
            .bytes
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| ProtocolError::violation("invalid string in message"))?;
        let text = self.take(end)?;
        self.take(1)?;
        str::from_utf8(text).map_err(|error| invalid_utf8(text, error.valid_up_to()))
    }

    /// A 16-bit count, then as many integers of `width` bytes.
    fn integers(&mut self, width: usize) -> Result<Integers<'a>> {
        let count = usize::from(self.u16()?);
        Ok(Integers { bytes: self.take(count.saturating_mul(width))?, width })
    }

    /// A 16-bit count, then as many values, each checked to lie inside the message.
    fn values(&mut self) -> Result<Values<'a>> {
        let count = usize::from(self.u16()?);
        let before = self.bytes;
        for _ in 0..count {
            self.value()?;
        }
        let used = before.len().saturating_sub(self.bytes.len());
        Ok(Values { bytes: before.get(..used).unwrap_or_default(), count })
    }

    /// A 32-bit length (-1: NULL), then as many bytes.
    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        let length = i32::from_be_bytes(self.u32()?.to_be_bytes());
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length)
            .map_err(|_| ProtocolError::violation("invalid length of a parameter value"))?;
        self.take(length).map(Some)
    }
}

/// PostgreSQL's answer to text in another encoding; shows up to four of the bytes.
pub(crate) fn invalid_utf8(text: &[u8], at: usize) -> ProtocolError {
    let bytes: Vec<String> =
        text.iter().skip(at).take(4).map(|byte| format!("0x{byte:02x}")).collect();
    ProtocolError {
        sqlstate: "22021",
        message: format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")),
    }
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04abcd\xff\xff\xff\xff\0\x01\0\0";

    #[test]
    fn bind_gives_all_its_parts() {
        let bytes = framed(b'B', BIND);
        let (message, used) = decode(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        let Message::Bind(bind) = message else { panic!("not a Bind") };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.parameter_formats.iter().collect::<Vec<_>>(), [1]);
        assert_eq!(bind.parameters.len(), 2);
        assert_eq!(bind.parameters.iter().collect::<Vec<_>>(), [Some(&b"abcd"[..]), None]);
        assert_eq!(bind.result_formats.iter().collect::<Vec<_>>(), [0]);
    }

    /// A body cut short must not read on into the message behind it.
    #[test]
    fn a_body_is_read_inside_its_own_length() {
        for cut in 0..BIND.len() {
            let mut bytes = framed(b'B', &BIND[..cut]);
            bytes.extend(framed(b'S', b""));
            let error = decode(&bytes).expect_err("a cut body was accepted");
            assert_eq!(error.sqlstate, "08P01", "cut at {cut}");
        }
        let mut long = BIND.to_vec();
        long.push(0);
        assert!(decode(&framed(b'B', &long)).is_err(), "bytes behind the last field");
    }

    #[test]
    fn an_incomplete_message_asks_for_more() {
        let bytes = framed(b'B', BIND);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn lengths_out_of_range_are_refused_before_the_bytes_arrive() {
        let gigabyte = [b'Q', 0x40, 0, 0, 0];
        assert_eq!(decode(&gigabyte).unwrap_err().sqlstate, "54000");
        assert_eq!(decode(&[b'S', 0x40, 0, 0, 0]).unwrap_err().sqlstate, "08P01");
        assert!(decode(&[b'S', 0, 0, 0, 3]).is_err());
        assert!(decode(&[b'Z', 0, 0, 0, 4]).is_err());
        assert!(decode_startup(&[0x7f, 0, 0, 0]).is_err());
        assert!(decode_startup(&[0, 0, 0, 7]).is_err());
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let error = decode(&framed(b'Q', b"select '\xff'\0")).unwrap_err();
        assert_eq!(error.sqlstate, "22021");
        assert_eq!(error.message, "invalid byte sequence for encoding \"UTF8\": 0xff 0x27");
    }

    #[test]
    fn startup_packets() {
        let mut body = 196_608u32.to_be_bytes().to_vec();
        body.extend(b"user\0a\0database\0b\0\0");
        let mut bytes = u32::try_from(body.len() + 4).unwrap().to_be_bytes().to_vec();
        bytes.extend(body);
        let (message, used) = decode_startup(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        let Startup::Session { major: 3, minor: 0, parameters } = message else { panic!() };
        assert_eq!(parameters.pairs().unwrap(), [("user", "a"), ("database", "b")]);
        assert!(Parameters(b"user\0a").pairs().is_err());
        assert_eq!(decode_startup(&bytes[..9]), Ok(None));
    }

    /// Whatever arrives, decoding answers; it never panics and never reads past its input.
    #[test]
    fn any_bytes_get_an_answer() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = vec![0u8; 64];
        for _ in 0..200_000 {
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            bytes[0] = b"QPBDECHSXdcfFp"[usize::from(bytes[0]) % 14];
            bytes[1..4].fill(0);
            if let Ok(Some((message, used))) = decode(&bytes) {
                assert!(used <= bytes.len());
                if let Message::Bind(bind) = message {
                    assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
                }
            }
            let _ = decode_startup(&bytes[1..]).map(|m| {
                m.map(|(m, _)| {
                    if let Startup::Session { parameters, .. } = m {
                        let _ = parameters.pairs();
                    }
                })
            });
        }
    }
}
