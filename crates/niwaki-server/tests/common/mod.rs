//! A server in this process with clients that send and receive bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_server::{Server, ServerOptions};

/// A time limit far beyond all waits here. Without the tested change the waits have no end.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn start(database: &Database) -> Server {
    start_with(database, 16, LONG)
}

pub(crate) fn start_with(database: &Database, sockets_max: usize, timeout: Duration) -> Server {
    let options = ServerOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        socket_dir: None,
        max_connections: 8,
        sockets_max,
        authentication_timeout: timeout,
    };
    Server::start(database.clone(), &options).expect("it starts")
}

pub(crate) fn database() -> Database {
    Database::open_with(Env::memory(), Options::new()).expect("it opens")
}

/// A client that sends and receives bytes.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) seen: Vec<u8>,
}

impl Client {
    /// Connects, and sends nothing.
    pub(crate) fn silent(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        Self { stream, seen: Vec::new() }
    }

    /// Connects, and asks for a session.
    pub(crate) fn connect(server: &Server, database: &str) -> Self {
        let mut client = Self::silent(server);
        client.ask_for_session(database);
        client
    }

    pub(crate) fn ask_for_session(&mut self, database: &str) {
        let body = format!("\0\x03\0\0user\0postgres\0database\0{database}\0\0");
        self.send_framed(None, body.as_bytes());
    }

    /// Connects, and waits for `ReadyForQuery`.
    pub(crate) fn ready(server: &Server, database: &str) -> Self {
        let mut client = Self::connect(server, database);
        client.read_to(b'Z');
        client
    }

    pub(crate) fn send_framed(&mut self, kind: Option<u8>, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        let mut bytes: Vec<u8> = kind.into_iter().collect();
        bytes.extend(length);
        bytes.extend(body);
        self.stream.write_all(&bytes).expect("the server reads");
    }

    pub(crate) fn send(&mut self, sql: &str) {
        self.send_framed(Some(b'Q'), format!("{sql}\0").as_bytes());
    }

    /// Returns the next message; `None` at the end of the stream.
    pub(crate) fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(header) = self.seen.first_chunk::<5>() {
                let length: [u8; 4] = header[1..].try_into().expect("four bytes");
                let end = 1 + u32::from_be_bytes(length) as usize;
                if self.seen.len() >= end {
                    let message: Vec<u8> = self.seen.drain(..end).collect();
                    return Some((message[0], message[5..].to_vec()));
                }
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.seen.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the server does not answer: {error}"),
            }
        }
    }

    /// Reads up to a message of this kind, and returns the messages read.
    pub(crate) fn read_to(&mut self, kind: u8) -> Vec<(u8, Vec<u8>)> {
        let mut read = Vec::new();
        loop {
            let message = self.message().expect("an answer");
            let is_last = message.0 == kind;
            read.push(message);
            if is_last {
                return read;
            }
        }
    }

    /// Runs a query and returns the first value of its first row, if it has one.
    pub(crate) fn run(&mut self, sql: &str) -> Option<String> {
        self.send(sql);
        let answer = self.read_to(b'Z');
        assert!(!answer.iter().any(|(kind, _)| *kind == b'E'), "{sql}: {answer:?}");
        let row = answer.iter().find(|(kind, _)| *kind == b'D')?;
        Some(String::from_utf8(row.1[6..].to_vec()).expect("text"))
    }

    /// Returns the SQLSTATEs of all errors up to the end of the stream.
    pub(crate) fn last_words(&mut self) -> Vec<String> {
        let mut states = Vec::new();
        while let Some((kind, body)) = self.message() {
            if kind == b'E' {
                let fields = String::from_utf8(body).expect("text");
                let state = fields.split('\0').find_map(|field| field.strip_prefix('C'));
                states.push(state.expect("a SQLSTATE").to_owned());
            }
        }
        states
    }
}
