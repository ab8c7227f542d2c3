//! A client of the wire protocol that knows simple queries only: enough to watch a server die.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

/// Most bytes a message may announce; more is damage.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A row: text of each column, or NULL.
pub type TextRow = Vec<Option<String>>;

/// A connection.
#[derive(Debug)]
pub struct Client {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

/// Why a query gave no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The server refused: SQLSTATE and message. The connection goes on.
    Server {
        /// SQLSTATE.
        state: String,
        /// The message.
        message: String,
    },
    /// The connection is gone; the outcome of the query is unknown.
    Connection(io::Error),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server { state, message } => write!(f, "{state}: {message}"),
            Self::Connection(error) => write!(f, "connection: {error}"),
        }
    }
}

impl Client {
    /// Connects as user and to database `postgres`.
    ///
    /// # Errors
    /// No connection, or the server refused it.
    pub fn connect(address: &str) -> Result<Self, ClientError> {
        let output = TcpStream::connect(address)?;
        output.set_nodelay(true)?;
        let mut client = Self { input: BufReader::new(output.try_clone()?), output };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend(b"user\0postgres\0database\0postgres\0\0");
        let len = u32::try_from(body.len() + 4).expect("a short message");
        client.output.write_all(&[&len.to_be_bytes()[..], &body].concat())?;
        client.answer()?;
        Ok(client)
    }

    /// Runs a query string; the rows of all its statements, one after the other.
    ///
    /// # Errors
    /// The server's, or the loss of the connection.
    pub fn query(&mut self, sql: &str) -> Result<Vec<TextRow>, ClientError> {
        let len = u32::try_from(sql.len() + 5).expect("a short query");
        let head = [&b"Q"[..], &len.to_be_bytes()].concat();
        self.output.write_all(&[&head[..], sql.as_bytes(), b"\0"].concat())?;
        self.answer()
    }

    /// Reads up to ReadyForQuery.
    fn answer(&mut self) -> Result<Vec<TextRow>, ClientError> {
        let mut rows = Vec::new();
        let mut error = None;
        loop {
            let mut head = [0; 5];
            self.input.read_exact(&mut head)?;
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if !(4..=MESSAGE_BYTES_MAX).contains(&len) {
                return Err(damaged("message length").into());
            }
            let mut body = vec![0; len - 4];
            self.input.read_exact(&mut body)?;
            match head[0] {
                b'D' => rows.push(row(&body).ok_or_else(|| damaged("data row"))?),
                b'E' => error = Some(server_error(&body)),
                b'R' if body != [0; 4] => return Err(damaged("authentication asked for").into()),
                b'Z' => return error.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected {what}"))
}

fn row(body: &[u8]) -> Option<TextRow> {
    let (count, mut rest) = body.split_at_checked(2)?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes([count[0], count[1]]) {
        let (len, after) = rest.split_at_checked(4)?;
        let len = i32::from_be_bytes([len[0], len[1], len[2], len[3]]);
        let Ok(len) = usize::try_from(len) else {
            columns.push(None);
            rest = after;
            continue;
        };
        let (bytes, after) = after.split_at_checked(len)?;
        columns.push(Some(String::from_utf8(bytes.to_vec()).ok()?));
        rest = after;
    }
    Some(columns)
}

fn server_error(body: &[u8]) -> ClientError {
    let field = |letter: u8| {
        let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&letter));
        found.map_or_else(String::new, |field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    ClientError::Server { state: field(b'C'), message: field(b'M') }
}
