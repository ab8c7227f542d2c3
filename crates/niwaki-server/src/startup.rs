//! The first phase of a connection: encryption requests, cancel requests, the start-up packet.

use std::time::Duration;

use niwaki::SqlError;

use crate::connection::{Input, Output, Socket};
use crate::wire::frontend::{self, Startup};

/// A client's request for a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Settings in the given order. The ones of `options` (`-c name=value`) come first, as in
    /// PostgreSQL.
    pub(crate) settings: Vec<(String, String)>,
    /// Requested minor protocol version.
    pub(crate) minor: u16,
    /// Protocol extensions (`_pq_.…`) that the server does not know.
    pub(crate) unknown: Vec<String>,
}

/// Result of the first phase.
pub(crate) enum Opening {
    /// The client wants a session.
    Session(Request),
    /// The client wants to cancel a statement of another session. It gets no answer.
    Cancel {
        /// The session's number, as `BackendKeyData` named it.
        process_id: u32,
        /// The session's secret.
        secret: Vec<u8>,
    },
    /// The client left.
    Gone,
}

/// Reads up to the start-up packet, while `left` returns remaining time. Refuses encryption with
/// the answer `N`.
///
/// # Errors
/// The error to send as FATAL before the connection is closed.
pub(crate) fn open(
    socket: &Socket,
    input: &mut Input,
    output: &mut Output,
    left: &dyn Fn() -> Duration,
) -> Result<Opening, SqlError> {
    // One request for TLS and one for GSSAPI are usual. More would be a loop.
    let mut encryption_requests = 0;
    loop {
        let decoded = frontend::decode_startup(input.pending())
            .map_err(|error| SqlError::new(error.sqlstate, error.message))?;
        let Some((packet, used)) = decoded else {
            // Single bytes do not extend the time limit.
            let left = left();
            if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
                return Ok(Opening::Gone);
            }
            match input.fill(socket) {
                Ok(true) => continue,
                // A port scan, or the time for authentication is over: no client waits for an
                // answer.
                Ok(false) | Err(_) => return Ok(Opening::Gone),
            }
        };
        match packet {
            Startup::SslRequest | Startup::GssRequest => {
                encryption_requests += 1;
                if encryption_requests > 2 {
                    return Err(SqlError::new("08P01", "too many encryption requests"));
                }
                input.consume(used);
                if !input.pending().is_empty() {
                    // An attacker could smuggle bytes that come before the answer into an encrypted
                    // session.
                    return Err(SqlError::new(
                        "08P01",
                        "received unencrypted data after encryption request",
                    ));
                }
                output.bytes.push(b'N');
                output.flush(socket);
            }
            Startup::Cancel { process_id, secret } => {
                return Ok(Opening::Cancel { process_id, secret: secret.to_vec() });
            }
            Startup::Session { major, minor, parameters } => {
                if major != 3 {
                    return Err(SqlError::new(
                        "0A000",
                        format!(
                            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
                        ),
                    ));
                }
                let pairs = parameters
                    .pairs()
                    .map_err(|error| SqlError::new(error.sqlstate, error.message))?;
                let request = request(minor, &pairs)?;
                input.consume(used);
                return Ok(Opening::Session(request));
            }
        }
    }
}

/// Separates the pairs of a start-up packet.
fn request(minor: u16, pairs: &[(&str, &str)]) -> Result<Request, SqlError> {
    let mut request = Request { minor, ..Request::default() };
    let mut given = Vec::new();
    for (name, value) in pairs {
        match *name {
            "user" => request.user = (*value).to_owned(),
            "database" => request.database = (*value).to_owned(),
            "options" => request.settings.extend(command_line_options(value)?),
            "replication" => {
                if !matches!(*value, "off" | "false" | "no" | "0") {
                    return Err(SqlError::new(
                        "0A000",
                        "replication connections are not supported",
                    ));
                }
            }
            extension if extension.starts_with("_pq_.") => {
                request.unknown.push(extension.to_owned());
            }
            setting => given.push((setting.to_owned(), (*value).to_owned())),
        }
    }
    request.settings.append(&mut given);
    if request.user.is_empty() {
        return Err(SqlError::new("28000", "no PostgreSQL user name specified in startup packet"));
    }
    if request.database.is_empty() {
        request.database.clone_from(&request.user);
    }
    Ok(request)
}

/// Parses the settings in a start-up packet's `options`: `-c name=value`, `-cname=value`,
/// `--name=value`. A backslash keeps the character after it.
fn command_line_options(options: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        if c.is_ascii_whitespace() {
            words.extend(word.take());
        } else {
            let c = if c == '\\' { chars.next().unwrap_or('\\') } else { c };
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);

    let invalid = |word: &str| {
        SqlError::new("42601", format!("invalid command-line argument for server process: {word}"))
            .with_hint("options may hold \"-c name=value\" and \"--name=value\"")
    };
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().ok_or_else(|| invalid(&word))?
        } else if let Some(rest) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            rest.to_owned()
        } else {
            return Err(invalid(&word));
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| invalid(&setting))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_as_on_a_command_line() {
        let parsed =
            command_line_options(r"-c geqo=off  -cdatestyle=ISO\,\ MDY --search-path=a -c x=a\ b")
                .unwrap();
        let expected =
            [("geqo", "off"), ("datestyle", "ISO, MDY"), ("search_path", "a"), ("x", "a b")];
        assert_eq!(parsed.len(), expected.len());
        for ((name, value), wanted) in parsed.iter().zip(expected) {
            assert_eq!((name.as_str(), value.as_str()), wanted);
        }
        for bad in ["-c", "-x", "-c novalue", "geqo=off"] {
            assert_eq!(command_line_options(bad).unwrap_err().sqlstate, "42601", "{bad}");
        }
    }

    #[test]
    fn the_database_defaults_to_the_user() {
        let found = request(0, &[("user", "u"), ("application_name", "x")]).unwrap();
        assert_eq!((found.user.as_str(), found.database.as_str()), ("u", "u"));
        assert_eq!(found.settings, [("application_name".to_owned(), "x".to_owned())]);
        assert_eq!(request(0, &[("database", "d")]).unwrap_err().sqlstate, "28000");
        let replication = request(0, &[("user", "u"), ("replication", "true")]);
        assert_eq!(replication.unwrap_err().sqlstate, "0A000");
    }
}
