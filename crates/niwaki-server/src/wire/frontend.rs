//! Decoding of the client's messages, which borrow from the input buffer.
//!
//! Every count and length is checked against the received bytes before it is used. These functions
//! allocate nothing, and no input can make them panic
//! (`docs/internals/decisions/0001-own-wire-codec.md`).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::str;

/// Largest start-up packet, in bytes (PostgreSQL's limit).
pub(crate) const STARTUP_MAX_BYTES: usize = 10_000;
/// Largest message that carries no query, value or COPY data, in bytes.
const SMALL_MAX_BYTES: usize = 10_000;
/// Largest message of any kind, in bytes. Memory is taken as bytes arrive, never ahead of them.
const LARGE_MAX_BYTES: usize = 64 << 20;

const PROTOCOL_SSL_REQUEST: u32 = 80_877_103;
const PROTOCOL_GSS_REQUEST: u32 = 80_877_104;
const PROTOCOL_CANCEL: u32 = 80_877_102;

/// Fault of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError {
    /// `08P01`, or `22021` for text that is not UTF-8, or `54000` for a message over the limit.
    pub(crate) sqlstate: &'static str,
    /// Description of the fault.
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
    /// Request for TLS.
    SslRequest,
    /// Request for GSSAPI encryption.
    GssRequest,
    /// Request to cancel the statement of another session.
    Cancel { process_id: u32, secret: &'a [u8] },
    /// Request for a session.
    Session { major: u16, minor: u16, parameters: Parameters<'a> },
}

/// Name and value pairs of a start-up packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters<'a>(&'a [u8]);

impl<'a> Parameters<'a> {
    /// Returns the pairs in the order sent.
    ///
    /// # Errors
    /// A pair without terminator, or one that is not UTF-8.
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

/// Decodes the first packet from the front of `input`. Returns `None` until the packet is complete.
/// The second value is the packet's length in bytes.
///
/// # Errors
/// [`ProtocolError`] for a length out of range or a malformed body.
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
    /// A function call, which Niwaki refuses with a message of its own.
    FunctionCall,
}

/// A Bind message. The fields behind the names are read in order, as far as the session needs them.
#[derive(Debug, PartialEq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    rest: Reader<'a>,
}

impl<'a> Bind<'a> {
    /// Reads the format codes of the parameters: none (all text), one (for all), or one each.
    pub(crate) fn parameter_formats(&mut self) -> Result<Integers<'a>> {
        self.rest.integers(2)
    }

    /// Reads the number of values that follow.
    pub(crate) fn count(&mut self) -> Result<usize> {
        self.rest.u16().map(usize::from)
    }

    /// Reads the next value; `None` for NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>> {
        self.rest.value()
    }

    /// Reads the format codes of the result columns, by the parameters' rule, and the message's
    /// end.
    pub(crate) fn result_formats(&mut self) -> Result<Integers<'a>> {
        let formats = self.rest.integers(2)?;
        self.rest.end()?;
        Ok(formats)
    }
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

    /// Iterates over the numbers of a list of format codes, which are signed and have 2 bytes.
    pub(crate) fn codes(self) -> impl Iterator<Item = i16> + Clone + 'a {
        let (codes, _) = self.bytes.as_chunks::<2>();
        codes.iter().map(|code| i16::from_be_bytes(*code))
    }

    /// Iterates over the numbers as unsigned ones.
    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.bytes
            .chunks_exact(self.width)
            .map(|chunk| chunk.iter().fold(0u32, |acc, byte| (acc << 8) | u32::from(*byte)))
    }
}

/// A message that has wholly arrived and is not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame<'a> {
    kind: u8,
    body: &'a [u8],
}

/// Finds the first message in `input`. Returns `None` until the message is complete.
///
/// # Errors
/// [`ProtocolError`] for an unknown type, or a length out of range. The beginning of the next
/// message is then unknown.
pub(crate) fn frame(input: &[u8]) -> Result<Option<Frame<'_>>> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    let limit = match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => LARGE_MAX_BYTES,
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' => SMALL_MAX_BYTES,
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
    Ok(rest.get(4..length).map(|body| Frame { kind, body }))
}

/// Returns the kind and the length in bytes of the first message in `input`, once its header is
/// there.
pub(crate) fn announced(input: &[u8]) -> Option<(u8, usize)> {
    let (&kind, rest) = input.split_first()?;
    let length = usize::try_from((Reader { bytes: rest }).peek_u32()?).ok()?;
    Some((kind, length.checked_add(1)?))
}

/// Decides whether all messages up to the next Sync are skipped after a failed message of this
/// kind.
pub(crate) fn is_extended(kind: u8) -> bool {
    matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

/// Decides whether a message of this kind is allowed while a client sends the data of a COPY.
pub(crate) fn is_of_copy(kind: u8) -> bool {
    matches!(kind, b'd' | b'c' | b'f' | b'H' | b'S')
}

impl<'a> Frame<'a> {
    /// Returns the byte that names the message's kind.
    pub(crate) fn kind(self) -> u8 {
        self.kind
    }

    /// Returns the number of bytes that the message takes in the input.
    pub(crate) fn len(self) -> usize {
        // The type byte and the value of the length word: at most the checked limit.
        self.body.len().saturating_add(5)
    }

    /// Decides whether the message is executed even while others are skipped.
    pub(crate) fn is_never_skipped(self) -> bool {
        matches!(self.kind, b'S' | b'X')
    }

    /// Decodes the body, strictly inside its own length.
    ///
    /// # Errors
    /// [`ProtocolError`] for a malformed body. The next message can still be read.
    pub(crate) fn read(self) -> Result<Message<'a>> {
        let mut reader = Reader { bytes: self.body };
        let message = match self.kind {
            b'Q' => Message::Query(reader.cstring()?),
            b'P' => Message::Parse {
                name: reader.cstring()?,
                query: reader.cstring()?,
                types: reader.integers(4)?,
            },
            b'B' => {
                let (portal, statement) = (reader.cstring()?, reader.cstring()?);
                return Ok(Message::Bind(Bind { portal, statement, rest: reader }));
            }
            b'D' | b'C' => {
                let target = reader.u8()?;
                let name = reader.cstring()?;
                reader.end()?;
                match (self.kind, target) {
                    (b'D', b'S') => Message::DescribeStatement(name),
                    (b'D', b'P') => Message::DescribePortal(name),
                    (b'C', b'S') => Message::CloseStatement(name),
                    (b'C', b'P') => Message::ClosePortal(name),
                    (kind, other) => {
                        let kind = if kind == b'D' { "DESCRIBE" } else { "CLOSE" };
                        return Err(ProtocolError::violation(format!(
                            "invalid {kind} message subtype {other}"
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
            // The bodies of these messages do not matter.
            b'X' => return Ok(Message::Terminate),
            b'c' => return Ok(Message::CopyDone),
            b'f' => Message::CopyFail(reader.cstring()?),
            b'd' => return Ok(Message::CopyData(self.body)),
            _ => return Ok(Message::FunctionCall),
        };
        reader.end()?;
        Ok(message)
    }
}

/// Takes fields from the front of a message body.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// Fails if bytes are left.
    fn end(&self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(ProtocolError::violation("invalid message format"))
    }

    fn peek_u32(&self) -> Option<u32> {
        self.bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn u8(&mut self) -> Result<u8> {
        let (first, rest) = self
            .bytes
            .split_first()
            .ok_or_else(|| ProtocolError::violation("no data left in message"))?;
        self.bytes = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16> {
        let bytes = self.take(2)?;
        Ok(bytes.iter().fold(0, |acc, byte| (acc << 8) | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |acc, byte| (acc << 8) | u32::from(*byte)))
    }

    /// Reads a string up to its terminating zero byte.
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

    /// Reads a 16-bit count, then as many integers of `width` bytes.
    fn integers(&mut self, width: usize) -> Result<Integers<'a>> {
        let count = usize::from(self.u16()?);
        Ok(Integers { bytes: self.take(count.saturating_mul(width))?, width })
    }

    /// Reads a 32-bit length (-1: NULL), then as many bytes.
    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        let length = i32::from_be_bytes(self.u32()?.to_be_bytes());
        if length == -1 {
            return Ok(None);
        }
        // A negative length becomes larger than any message.
        self.take(usize::try_from(length).unwrap_or(usize::MAX)).map(Some)
    }
}

/// Returns PostgreSQL's error for text in another encoding.
pub(crate) fn invalid_utf8(text: &[u8], at: usize) -> ProtocolError {
    let error = niwaki_types::invalid_utf8(text, at);
    ProtocolError { sqlstate: error.sqlstate, message: error.message }
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

    /// Decodes one whole message.
    fn decode(input: &[u8]) -> Result<Option<(Message<'_>, usize)>> {
        let Some(frame) = frame(input)? else { return Ok(None) };
        frame.read().map(|message| Some((message, frame.len())))
    }

    /// Parameter formats, values, and result formats.
    type Parts<'a> = (Vec<u32>, Vec<Option<&'a [u8]>>, Vec<u32>);

    fn parts<'a>(bind: &mut Bind<'a>) -> Result<Parts<'a>> {
        let formats = bind.parameter_formats()?.iter().collect();
        let values = (0..bind.count()?).map(|_| bind.value()).collect::<Result<_>>()?;
        Ok((formats, values, bind.result_formats()?.iter().collect()))
    }

    #[test]
    fn bind_gives_all_its_parts() {
        let bytes = framed(b'B', BIND);
        let (message, used) = decode(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        let Message::Bind(mut bind) = message else { panic!("not a Bind") };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        let found = parts(&mut bind).unwrap();
        assert_eq!(found, (vec![1], vec![Some(&b"abcd"[..]), None], vec![0]));
    }

    /// A body that is cut short must not be read into the message behind it.
    #[test]
    fn a_body_is_read_inside_its_own_length() {
        let read = |body: &[u8]| {
            let mut bytes = framed(b'B', body);
            bytes.extend(framed(b'S', b""));
            let (message, used) = decode(&bytes)?.expect("a whole message");
            assert_eq!(used, body.len() + 5);
            let Message::Bind(mut bind) = message else { panic!("not a Bind") };
            parts(&mut bind).map(drop)
        };
        for cut in 0..BIND.len() {
            let error = read(&BIND[..cut]).expect_err("a cut body was accepted");
            assert_eq!(error.sqlstate, "08P01", "cut at {cut}");
        }
        let mut long = BIND.to_vec();
        long.push(0);
        assert_eq!(read(&long).unwrap_err().message, "invalid message format");
    }

    /// After a malformed message, the next one is still found.
    #[test]
    fn a_malformed_body_loses_only_its_message() {
        let cases: [(u8, &[u8], &str); 8] = [
            (b'Q', b"select 1", "invalid string in message"),
            (b'Q', b"select 1\0x", "invalid message format"),
            (b'D', b"", "no data left in message"),
            (b'D', b"Qx\0", "invalid DESCRIBE message subtype 81"),
            (b'C', b"Qx\0", "invalid CLOSE message subtype 81"),
            (b'C', b"Qx\0\0", "invalid message format"),
            (b'E', b"\0\0\0", "insufficient data left in message"),
            (b'S', b"\0", "invalid message format"),
        ];
        for (kind, body, message) in cases {
            let mut bytes = framed(kind, body);
            let begun = bytes.len();
            bytes.extend(framed(b'S', b""));
            let found = frame(&bytes).unwrap().unwrap();
            assert_eq!(found.read().unwrap_err().message, message);
            assert_eq!(found.len(), begun);
        }
    }

    #[test]
    fn an_incomplete_message_asks_for_more() {
        let bytes = framed(b'B', BIND);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), Ok(None), "cut at {cut}");
            let expected = (cut >= 5).then_some((b'B', bytes.len()));
            assert_eq!(announced(&bytes[..cut]), expected, "cut at {cut}");
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
        for (text, shown) in [
            (&b"select '\xff'\0"[..], "0xff"),
            (b"select '\xc1e'\0", "0xc1 0x65"),
            (b"select '\xe2\x82'\0", "0xe2 0x82 0x27"),
            (b"\xf0\x9f\0", "0xf0 0x9f"),
        ] {
            let error = decode(&framed(b'Q', text)).unwrap_err();
            assert_eq!(error.sqlstate, "22021");
            let message = format!("invalid byte sequence for encoding \"UTF8\": {shown}");
            assert_eq!(error.message, message);
        }
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

    /// For any bytes decoding returns a result, never panics, and never reads past its input.
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
                if let Message::Bind(mut bind) = message {
                    let _ = parts(&mut bind);
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
