//! Bytes that no client sends: whatever comes, it costs its own connection only.
//!
//! Messages are drawn as clients send them, with messages from the recorded conversations of psql
//! and pgbench. Then their bytes are damaged ([`messages`]). The bytes go to the server in pieces
//! of any size, before or after the start of a session. The connection ends in some way. After each
//! one the server still answers a new connection, and at once; its memory stays within its limit. A
//! transaction that was open all the time commits, and the directory is whole.
//!
//! `NIWAKI_WIRE_SEED` (1 unless given) draws all cases. `NIWAKI_WIRE_CASES` gives their number, and
//! `NIWAKI_WIRE_ONLY` runs one by its number. All are printed.

mod messages;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use support::{Random, Server, TempDir, check};

/// A damaged text may be a long statement by chance.
const SETTINGS: [&str; 6] = [
    "--set",
    "shared_buffers=16MB",
    "--set",
    "max_server_memory=256MB",
    "--set",
    "statement_timeout=2s",
];
/// Most resident memory of the server, in kB: its limit, with room for memory that the limit does
/// not count.
const RESIDENT_KB_MAX: u64 = 384 << 10;
/// Longest time until a new connection is answered.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longest time until a connection ends once nothing comes any more: some statements' timeouts.
const END_MAX: Duration = Duration::from_mins(1);
/// Wait of a client that wants to read a little.
const LITTLE: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, String>;

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Returns the generator of one case.
fn random(seed: u64, case: u64) -> Random {
    let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(case));
    // Neighbouring seeds begin alike; a few numbers later they differ.
    for _ in 0..8 {
        random.below(2);
    }
    random
}

fn connect(server: &Server) -> Result<TcpStream> {
    let connected = TcpStream::connect(("127.0.0.1", server.port()));
    let socket = connected.map_err(|error| format!("no connection: {error}"))?;
    let set = socket.set_read_timeout(Some(END_MAX)).and_then(|()| socket.set_nodelay(true));
    set.and_then(|()| socket.set_write_timeout(Some(END_MAX)))
        .map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Sends, and reads messages up to `ReadyForQuery`. Returns the messages of type `wanted`.
fn ask(socket: &mut TcpStream, bytes: &[u8], wanted: u8) -> Result<Vec<Vec<u8>>> {
    let gone = |error: std::io::Error| format!("no answer: {error}");
    socket.write_all(bytes).map_err(gone)?;
    let mut found = Vec::new();
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).map_err(gone)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).expect("a length").saturating_sub(4)];
        socket.read_exact(&mut body).map_err(gone)?;
        match head[0] {
            b'Z' => return Ok(found),
            b'E' => return Err(format!("an error: {}", body.escape_ascii())),
            kind if kind == wanted => found.push(body),
            _ => {}
        }
    }
}

/// Returns a session that has begun.
fn session(server: &Server) -> Result<TcpStream> {
    let mut socket = connect(server)?;
    ask(&mut socket, &messages::startup(), b'Z')?;
    Ok(socket)
}

/// Requires that a new connection is answered; returns how long that took.
fn answers(server: &Server) -> Result<Duration> {
    let start = Instant::now();
    let rows = ask(&mut session(server)?, &messages::message(b'Q', b"select 1\0"), b'D')?;
    if rows != [b"\0\x01\0\0\0\x011"] {
        return Err(format!("select 1 gave {rows:?}"));
    }
    let took = start.elapsed();
    if took > ANSWER_MAX { Err(format!("select 1 took {took:?}")) } else { Ok(took) }
}

/// Returns the resident memory in kB; `None` where the system does not report it.
fn resident_kb(server: &Server) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", server.pid())).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Reads until the server has closed the connection.
fn read_to_end(socket: &mut TcpStream) -> Result<()> {
    let (start, mut buffer) = (Instant::now(), vec![0; 1 << 16]);
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) if start.elapsed() < END_MAX => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // The connection was reset: the server had not read all bytes.
                return Ok(());
            }
            _ => return Err(format!("the connection has not ended within {END_MAX:?}")),
        }
    }
}

/// Plays one case; the sent bytes are left in `sent`.
fn play(server: &Server, texts: &[String], random: &mut Random, sent: &mut Vec<u8>) -> Result<()> {
    let mut socket = match random.below(8) {
        0 => {
            *sent = messages::opening(random);
            connect(server)?
        }
        _ => session(server)?,
    };
    for _ in 0..=random.below(12) {
        sent.extend(messages::draw(texts, random));
    }
    messages::damage(sent, random);
    let mut rest = &sent[..];
    while !rest.is_empty() {
        let count = 1 + usize::try_from(random.below(rest.len() as u64)).expect("a length");
        // The server may have had enough.
        if socket.write_all(&rest[..count]).is_err() {
            break;
        }
        rest = &rest[count..];
    }
    match random.below(5) {
        // The client closes the connection at once.
        0 => Ok(()),
        // The client closes the connection in the middle of the answer.
        1 => {
            let set = socket.set_read_timeout(Some(LITTLE));
            set.map_err(|error| error.to_string())?;
            let _ = socket.read(&mut [0; 100]);
            Ok(())
        }
        _ => {
            // After a reset there is nothing left to send.
            let _ = socket.shutdown(Shutdown::Write);
            read_to_end(&mut socket)
        }
    }
}

#[test]
fn drawn_bytes_cost_only_their_connection() {
    let seed = number("NIWAKI_WIRE_SEED").unwrap_or(1);
    let count = number("NIWAKI_WIRE_CASES").unwrap_or(2000);
    println!("{count} cases of NIWAKI_WIRE_SEED={seed}");
    let cases = number("NIWAKI_WIRE_ONLY").map_or(0..count, |only| only..only + 1);
    let dir = TempDir::new("wire");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &SETTINGS);
    let mut witness = server.client();
    let tables = "create table w (id int, note text); create table kept (a int);
                  insert into w select i, 'note ' || i from generate_series(1, 5) i";
    witness.batch_execute(tables).expect("the tables");
    witness.batch_execute("begin; insert into kept values (1)").expect("a transaction");

    let texts = messages::texts();
    assert!(texts.len() > 50, "{} texts: the traces have others", texts.len());
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for case in cases {
        let mut sent = Vec::new();
        let played = play(&server, &texts, &mut random(seed, case), &mut sent);
        let outcome = played.and_then(|()| answers(&server));
        let resident = resident_kb(&server).unwrap_or(0);
        let judged = outcome.and_then(|took| match resident {
            0..=RESIDENT_KB_MAX => Ok(took),
            _ => Err(format!("the server has {resident} kB")),
        });
        (slowest, largest) = match judged {
            Ok(took) => (slowest.max(took), largest.max(resident)),
            Err(what) => {
                let shown = &sent[..sent.len().min(2000)];
                let sent = sent.len();
                panic!("case {case} of seed {seed}: {what}\n{sent} bytes: {}", shown.escape_ascii())
            }
        };
    }
    println!("the slowest answer took {slowest:?}, the server had {largest} kB at most");
    witness.batch_execute("commit").expect("its transaction is its own");
    drop(witness);
    let row = server.client().query_one("select count(*) from kept", &[]).expect("a count");
    assert_eq!(row.get::<_, i64>(0), 1);
    assert!(server.stop(), "a clean stop");
    let said = server.stderr();
    assert!(!said.contains("panicked") && !said.contains("internal error"), "{said}");
    check(&data);
}
