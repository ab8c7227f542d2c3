//! Messages of the protocol, and their words in a trace.
//!
//! `> ` marks messages of the client, `< ` answers of the server, a line a message. A line is the
//! type, then command tag, SQLSTATE, names and oids of columns, …. Backslash, newline and tab are
//! escaped.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

/// A message: its type and the bytes behind the length.
pub(crate) type Message = (u8, Vec<u8>);

/// Reads a message; `None` when the other side has closed the connection.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    Ok(Some((kind[0], read_body(from)?)))
}

/// Reads a message without a type, as the first of a connection is.
pub(crate) fn read_body(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// Sends a message.
pub(crate) fn send(to: &mut impl Write, kind: u8, body: &[u8]) -> io::Result<()> {
    to.write_all(&[&[kind][..], &with_length(body)].concat())
}

/// Sends a message without a type.
pub(crate) fn send_body(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    to.write_all(&with_length(body))
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&length.to_be_bytes()[..], body].concat()
}

/// Returns the start-up message of version 3.0 with these parameters.
pub(crate) fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608u32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    body
}

pub(crate) fn cstring(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('n')) => out.push('\n'),
            (_, Some('t')) => out.push('\t'),
            (_, Some(other)) => out.push(other),
            (c, None) => out.push(c),
        }
    }
    out
}

fn number(body: &[u8], at: usize, size: usize) -> u64 {
    body[at..at + size].iter().fold(0, |acc, byte| (acc << 8) | u64::from(*byte))
}

fn string(body: &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    String::from_utf8_lossy(&body[..end]).into_owned()
}

/// Returns a server's message in the words of a trace; rows with their values if asked.
pub(crate) fn answer(kind: u8, body: &[u8], values: bool) -> String {
    let mut line = String::from(char::from(kind));
    let short = |at: usize| number(body, at, 2) as usize;
    match kind {
        b'T' => {
            let mut at = 2;
            for _ in 0..short(0) {
                let name = string(&body[at..]);
                let end = at + name.len();
                let (oid, size) = (number(body, end + 7, 4), number(body, end + 11, 2) as i16);
                let typmod = number(body, end + 13, 4) as i32;
                write!(line, " {name}:{oid}:{size}:{typmod}:{}", short(end + 17)).unwrap();
                at = end + 19;
            }
        }
        b'C' => write!(line, " {}", string(body)).unwrap(),
        b'E' | b'N' => {
            let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
            write!(line, " {}", string(&field.expect("an SQLSTATE")[1..])).unwrap();
        }
        b't' => {
            // An empty list is shown with its separator too.
            let oids: Vec<String> =
                (0..short(0)).map(|i| number(body, 2 + 4 * i, 4).to_string()).collect();
            write!(line, " {}", oids.join(" ")).unwrap();
        }
        b'D' if values => write!(line, " {}", escape(&row(body).join("|"))).unwrap(),
        b'D' => write!(line, " {}", short(0)).unwrap(),
        b'd' if values => write!(line, " {}", escape(&String::from_utf8_lossy(body))).unwrap(),
        b'R' => write!(line, " {}", number(body, 0, 4)).unwrap(),
        b'S' => write!(line, " {}", string(body)).unwrap(),
        b'Z' => write!(line, " {}", char::from(body[0])).unwrap(),
        b'G' | b'H' => write!(line, " {}", short(1)).unwrap(),
        _ => {}
    }
    line
}

fn row(body: &[u8]) -> Vec<String> {
    let mut at = 2;
    let mut values = Vec::new();
    for _ in 0..number(body, 0, 2) {
        let length = number(body, at, 4) as u32 as i32;
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            values.push("NULL".to_owned());
            continue;
        };
        values.push(String::from_utf8_lossy(&body[at..at + length]).into_owned());
        at += length;
    }
    values
}

/// Returns a client's message in the words of a trace, if it is one that a trace may hold.
pub(crate) fn request(kind: u8, body: &[u8]) -> Option<String> {
    let letter = char::from(kind);
    Some(match kind {
        b'Q' => format!("Q {}", escape(&string(body))),
        b'P' => {
            let name = string(body);
            let sql = string(&body[name.len() + 1..]);
            // Without types of parameters.
            if body.len() != name.len() + sql.len() + 4 {
                return None;
            }
            format!("P {name}|{}", escape(&sql))
        }
        b'D' => format!("D {}", string(body)),
        b'd' => format!("d {}", escape(std::str::from_utf8(body).ok()?)),
        b'f' => format!("f {}", escape(&string(body))),
        b'S' | b'c' | b'X' => letter.to_string(),
        _ => return None,
    })
}

/// Returns the message that [`request`] shows as `command` and `rest`.
pub(crate) fn parse_request(command: &str, rest: &str) -> Option<Message> {
    let body = match command {
        "Q" | "D" | "f" => cstring(&unescape(rest)),
        "P" => {
            let (name, sql) = rest.split_once('|')?;
            [cstring(name), cstring(&unescape(sql)), vec![0, 0]].concat()
        }
        "d" => unescape(rest).into_bytes(),
        "S" | "c" | "X" => Vec::new(),
        _ => return None,
    };
    Some((command.as_bytes()[0], body))
}
