//! A recorded conversation of pgbench 15 with PostgreSQL 15, replayed: the answers must have the
//! same message types, command tags, SQLSTATEs, column names, type oids and formats.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use support::{Server, TempDir};

const TRACE: &str = include_str!("pgbench.trace");

fn unescape(text: &str) -> String {
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

struct Replay {
    socket: TcpStream,
}

impl Replay {
    fn connect(server: &Server) -> Self {
        let mut replay = Self { socket: server.socket() };
        let mut body = 196_608u32.to_be_bytes().to_vec();
        body.extend(b"user\0postgres\0database\0postgres\0application_name\0pgbench\0\0");
        let length = u32::try_from(body.len() + 4).unwrap();
        replay.socket.write_all(&length.to_be_bytes()).unwrap();
        replay.socket.write_all(&body).unwrap();
        while replay.message().0 != b'Z' {}
        replay
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        self.socket.write_all(&bytes).unwrap();
    }

    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).expect("an answer");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body).expect("an answer");
        (head[0], body)
    }

    /// Everything up to ReadyForQuery or CopyInResponse, a line a message.
    fn answers(&mut self, out: &mut Vec<String>) {
        loop {
            let (kind, body) = self.message();
            let line = format!("< {}", shown(kind, &body));
            if kind != b'D' || out.last() != Some(&line) {
                out.push(line);
            }
            if matches!(kind, b'Z' | b'G') {
                return;
            }
        }
    }
}

/// A message in the words of the trace.
fn shown(kind: u8, body: &[u8]) -> String {
    let number = |at: usize, size: usize| {
        body[at..at + size].iter().fold(0u64, |acc, byte| (acc << 8) | u64::from(*byte))
    };
    let mut line = String::from(char::from(kind));
    match kind {
        b'T' => {
            let mut at = 2;
            for _ in 0..number(0, 2) {
                let end = at + body[at..].iter().position(|byte| *byte == 0).unwrap();
                let name = String::from_utf8_lossy(&body[at..end]);
                let (oid, size) = (number(end + 7, 4), number(end + 11, 2) as i16);
                let (typmod, format) = (number(end + 13, 4) as i32, number(end + 17, 2));
                write!(line, " {name}:{oid}:{size}:{typmod}:{format}").unwrap();
                at = end + 19;
            }
        }
        b'C' => write!(line, " {}", String::from_utf8_lossy(&body[..body.len() - 1])).unwrap(),
        b'E' | b'N' => {
            let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
            write!(line, " {}", String::from_utf8_lossy(&field.unwrap()[1..])).unwrap();
        }
        b't' => {
            // PostgreSQL shows an empty list with its separator too.
            let oids: Vec<String> =
                (0..number(0, 2) as usize).map(|i| number(2 + 4 * i, 4).to_string()).collect();
            write!(line, " {}", oids.join(" ")).unwrap();
        }
        b'D' => write!(line, " {}", number(0, 2)).unwrap(),
        b'Z' => write!(line, " {}", char::from(body[0])).unwrap(),
        b'G' | b'H' => write!(line, " {}", number(1, 2)).unwrap(),
        _ => {}
    }
    line
}

fn cstring(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

#[test]
fn pgbench_is_answered_as_postgresql_answers() {
    let dir = TempDir::new("trace");
    let server = Server::start(&dir.path().join("data"), &[]);
    let mut replay = Replay::connect(&server);
    let mut answers: Vec<String> = Vec::new();
    for line in TRACE.lines().filter(|line| line.starts_with("> ")) {
        let (command, rest) = line[2..].split_once(' ').unwrap_or((&line[2..], ""));
        answers.push(line.to_owned());
        match command {
            "connect" => replay = Replay::connect(&server),
            "Q" => {
                replay.send(b'Q', &cstring(&unescape(rest)));
                replay.answers(&mut answers);
            }
            "P" => {
                let (name, sql) = rest.split_once('|').unwrap();
                replay.send(b'P', &[cstring(name), cstring(&unescape(sql)), vec![0, 0]].concat());
            }
            "B" => {
                let [portal, statement, count] =
                    <[&str; 3]>::try_from(rest.split('|').collect::<Vec<_>>()).unwrap();
                let count: u16 = count.parse().unwrap();
                let mut body = [cstring(portal), cstring(statement), vec![0, 0]].concat();
                body.extend(count.to_be_bytes());
                for _ in 0..count {
                    body.extend([0, 0, 0, 1, b'1']);
                }
                body.extend([0, 1, 0, 0]);
                replay.send(b'B', &body);
            }
            "D" => replay.send(b'D', &cstring(rest)),
            "C" => replay.send(b'C', &cstring(rest)),
            "E" => replay.send(b'E', &[cstring(rest), vec![0; 4]].concat()),
            "H" => replay.send(b'H', b""),
            "S" => {
                replay.send(b'S', b"");
                replay.answers(&mut answers);
            }
            "d" => replay.send(b'd', unescape(rest).as_bytes()),
            "c" => {
                replay.send(b'c', b"");
                replay.answers(&mut answers);
            }
            other => panic!("{other}: not a command of the trace"),
        }
    }
    let recorded = TRACE.lines().filter(|line| line.starts_with(['<', '>']));
    let mut before = "";
    for (number, (expected, found)) in recorded.zip(&answers).enumerate() {
        if expected.starts_with('>') {
            before = expected;
        }
        // A trailing space of an empty list is no difference.
        assert_eq!(expected.trim_end(), found.trim_end(), "line {number}, after {before}");
    }
}
