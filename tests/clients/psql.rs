//! A recorded conversation of psql 15 with PostgreSQL 15, replayed.
//!
//! The answers must have the same message types, command tags, SQLSTATEs, column names, type oids,
//! formats and values.
//!
//! `cargo test -p niwaki-tests --test clients -- --ignored record_psql` records it again
//! (`record`).

use std::fmt::Write as _;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use support::{Server, TempDir};

use crate::wire::{self, parse_request};

const TRACE: &str = include_str!("psql.trace");
/// Time the server may take to notice a cancel request before the request is sent again.
const CANCEL_WAIT: Duration = Duration::from_millis(100);
/// Most cancel requests for one statement.
const CANCELS_MAX: u32 = 300;

struct Replay<'s> {
    server: &'s Server,
    socket: TcpStream,
    /// Session number and secret, as the server gave them.
    key: Vec<u8>,
}

impl Replay<'_> {
    fn send(&mut self, command: &str, rest: &str) {
        match command {
            "ssl" => wire::send_body(&mut self.socket, &80_877_103u32.to_be_bytes()).unwrap(),
            "connect" => {
                let parameters: Vec<(&str, &str)> =
                    rest.split(' ').filter_map(|pair| pair.split_once('=')).collect();
                wire::send_body(&mut self.socket, &wire::startup(&parameters)).unwrap();
            }
            "cancel" => self.cancel(),
            _ => {
                let (kind, body) =
                    parse_request(command, rest).unwrap_or_else(|| panic!("{command} {rest}"));
                wire::send(&mut self.socket, kind, &body).unwrap();
            }
        }
    }

    /// Asks again and again: a request that comes before the statement has begun has no effect.
    fn cancel(&self) {
        let body = [&80_877_102u32.to_be_bytes()[..], &self.key].concat();
        self.socket.set_read_timeout(Some(CANCEL_WAIT)).unwrap();
        // The statement runs after this wait: one cancelled during planning has no columns to
        // report.
        assert!(self.socket.peek(&mut [0]).is_err(), "the statement does not wait");
        for _ in 0..CANCELS_MAX {
            let mut other = self.server.socket();
            wire::send_body(&mut other, &body).unwrap();
            // The server closes the connection when it has handled the request.
            assert_eq!(io::copy(&mut other, &mut io::sink()).expect("an end"), 0);
            if self.socket.peek(&mut [0]).is_ok() {
                self.socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                return;
            }
        }
        panic!("the statement was not cancelled");
    }

    /// Returns the next answer in the words of the trace.
    fn answer(&mut self, expected: &str) -> String {
        // The answer to a request for encryption is one byte.
        if expected.starts_with("ssl ") {
            let mut byte = [0];
            io::Read::read_exact(&mut self.socket, &mut byte).expect("an answer");
            return format!("ssl {}", char::from(byte[0]));
        }
        match wire::read(&mut self.socket) {
            Ok(Some((kind, body))) => {
                if kind == b'K' {
                    self.key = body.clone();
                }
                wire::answer(kind, &body, true)
            }
            Ok(None) => "(closed)".to_owned(),
            Err(error) => format!("({error})"),
        }
    }
}

/// Sorts the statuses that the server reports at the start in any order.
fn in_any_order(answers: &mut [String]) {
    let statuses: Vec<usize> =
        (0..answers.len()).filter(|at| answers[*at].starts_with("S ")).collect();
    let mut sorted: Vec<String> = statuses.iter().map(|at| answers[*at].clone()).collect();
    sorted.sort();
    for (at, status) in statuses.into_iter().zip(sorted) {
        answers[at] = status;
    }
}

#[test]
fn psql_is_answered_as_postgresql_answers() {
    let dir = TempDir::new("psql-trace");
    let server = Server::start(&dir.path().join("data"), &[]);
    let mut differences = String::new();
    for section in TRACE.split("\n== ").skip(1) {
        let mut lines = section.lines();
        let name = lines.next().expect("a name");
        let mut replay = Replay { server: &server, socket: server.socket(), key: Vec::new() };
        let mut lines = lines.peekable();
        let mut request = "";
        while lines.peek().is_some() {
            while let Some(line) = lines.next_if(|line| line.starts_with("> ")) {
                request = &line[2..];
                let (command, rest) = request.split_once(' ').unwrap_or((request, ""));
                replay.send(command, rest);
            }
            let mut expected = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("> ")) {
                expected.extend(line.strip_prefix("< ").map(str::to_owned));
            }
            let mut found: Vec<String> = expected.iter().map(|line| replay.answer(line)).collect();
            in_any_order(&mut found);
            in_any_order(&mut expected);
            // A trailing space of an empty list is no difference.
            let trim = |lines: &[String]| -> Vec<String> {
                lines.iter().map(|line| line.trim_end().to_owned()).collect()
            };
            if trim(&found) != trim(&expected) {
                writeln!(
                    differences,
                    "{name}: after {request}\n  expected {expected:#?}\n  found {found:#?}"
                )
                .unwrap();
                // The following messages would be out of step.
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
