//! A recorded conversation of pgbench 15 with PostgreSQL 15, replayed.
//!
//! The answers must have the same message types, command tags, SQLSTATEs, column names, type oids
//! and formats.

use std::net::TcpStream;

use support::{Server, TempDir};

use crate::wire::{self, cstring, parse_request};

const TRACE: &str = include_str!("pgbench.trace");

struct Replay {
    socket: TcpStream,
}

impl Replay {
    fn connect(server: &Server) -> Self {
        let mut replay = Self { socket: server.socket() };
        let parameters =
            [("user", "postgres"), ("database", "postgres"), ("application_name", "pgbench")];
        wire::send_body(&mut replay.socket, &wire::startup(&parameters)).unwrap();
        while replay.message().0 != b'Z' {}
        replay
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        wire::send(&mut self.socket, kind, body).unwrap();
    }

    fn message(&mut self) -> wire::Message {
        wire::read(&mut self.socket).expect("an answer").expect("an open connection")
    }

    /// Appends everything up to `ReadyForQuery` or `CopyInResponse`, a line a message. A run of
    /// rows is one line.
    fn answers(&mut self, out: &mut Vec<String>) {
        loop {
            let (kind, body) = self.message();
            let line = format!("< {}", wire::answer(kind, &body, false));
            if kind != b'D' || out.last() != Some(&line) {
                out.push(line);
            }
            if matches!(kind, b'Z' | b'G') {
                return;
            }
        }
    }
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
            "C" => replay.send(b'C', &cstring(rest)),
            "E" => replay.send(b'E', &[cstring(rest), vec![0; 4]].concat()),
            "H" => replay.send(b'H', b""),
            other => {
                let (kind, body) =
                    parse_request(other, rest).unwrap_or_else(|| panic!("{other} in the trace"));
                replay.send(kind, &body);
                if matches!(kind, b'Q' | b'S' | b'c') {
                    replay.answers(&mut answers);
                }
            }
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
