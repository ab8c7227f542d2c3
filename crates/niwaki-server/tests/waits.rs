//! Terminating sessions that wait for their clients.
//!
//! `pg_terminate_backend` once had no effect on a session that was idle in a transaction. The
//! session kept its locks and its snapshot, and DROP DATABASE … WITH (FORCE) failed. A client that
//! did not read its result kept the server from stopping, and its statements ran on behind the last
//! checkpoint. Now a request to end a session wakes the session wherever it waits for its client.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Client, LONG, database, start, start_with};
use niwaki::{Database, Options};
use niwaki_env::Env;

#[test]
fn a_session_that_is_idle_in_a_transaction_is_terminated() {
    let database = database();
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    other.run("create table t (a int primary key)");
    other.run("insert into t values (1)");
    let mut idle = Client::ready(&server, "postgres");
    let pid = idle.run("select pg_backend_pid()").expect("a number");
    idle.run("begin");
    idle.run("update t set a = 2");
    assert_eq!(other.run(&format!("select pg_terminate_backend({pid})")).as_deref(), Some("t"));
    // This waits for the lock of the idle session while that session holds it.
    other.run("update t set a = 5");
    assert_eq!(other.run("select a from t").as_deref(), Some("5"));
    assert_eq!(idle.last_words(), ["57P01"]);
    drop(server.stop());
}

/// With a timeout, `pg_terminate_backend` waits for the end, and returns whether the session ended.
#[test]
fn the_end_of_a_terminated_session_is_waited_for() {
    let database = database();
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    let port = server.address().port().to_string();
    assert_eq!(other.run("show port").as_deref(), Some(&*port));
    let mut idle = Client::ready(&server, "postgres");
    let pid = idle.run("select pg_backend_pid()").expect("a number");
    let wait = format!("select pg_terminate_backend({pid}, 20000)");
    assert_eq!(other.run(&wait).as_deref(), Some("t"));
    assert_eq!(other.run(&wait).as_deref(), Some("f"), "there is none any more");
    let killed = "select sessions_killed from pg_stat_database where datname = 'postgres'";
    assert_eq!(other.run(killed).as_deref(), Some("1"));
    // A session of this program, which the program neither uses nor drops.
    let kept = database.session();
    let wait = format!("select pg_terminate_backend({}, 1)", kept.id());
    assert_eq!(other.run(&wait).as_deref(), Some("f"));
    drop((kept, server.stop()));
}

/// The end of a session releases its snapshot and its place among the sessions.
#[test]
fn a_session_that_is_idle_with_a_snapshot_is_terminated() {
    let database = database();
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    other.run("create table t (a int)");
    let mut idle = Client::ready(&server, "postgres");
    let pid = idle.run("select pg_backend_pid()").expect("a number");
    idle.run("begin isolation level repeatable read");
    idle.run("select count(*) from t");
    let held = format!("select count(*) from niwaki_snapshots where pid = {pid}");
    assert_eq!(other.run(&held).as_deref(), Some("1"));
    assert_eq!(other.run(&format!("select pg_terminate_backend({pid})")).as_deref(), Some("t"));
    // The stream ends when the session has ended.
    assert_eq!(idle.last_words(), ["57P01"]);
    let began = Instant::now();
    let sessions = format!("select count(*) from pg_stat_activity where pid = {pid}");
    while [&held, &sessions].iter().any(|sql| other.run(sql).as_deref() != Some("0")) {
        assert!(began.elapsed() < LONG, "something of it stays");
    }
    drop(server.stop());
}

#[test]
fn sessions_that_listen_or_copy_or_sleep_are_terminated() {
    let database = database();
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    other.run("create table t (a int); create table u (a int)");
    let wait = |sql: &str, kind: u8| {
        let mut client = Client::ready(&server, "postgres");
        let pid = client.run("select pg_backend_pid()").expect("a number");
        client.send(sql);
        if kind != 0 {
            client.read_to(kind);
        }
        (client, pid)
    };
    let waiting = [
        wait("listen c", b'Z'),
        wait("copy t from stdin", b'G'),
        wait("select pg_sleep(1000)", 0),
        wait("begin; lock u", b'Z'),
        wait("begin; lock u", 0),
    ];
    for (_, pid) in &waiting {
        other.run(&format!("select pg_terminate_backend({pid})"));
    }
    for (mut client, _) in waiting {
        assert_eq!(client.last_words(), ["57P01"]);
    }
    drop(server.stop());
}

/// A client that begins a COPY and sends nothing is cancelled like any statement.
#[test]
fn a_copy_that_waits_for_data_is_out_of_time() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    client.run("create table t (a int)");
    client.run("set statement_timeout = 50");
    client.send("copy t from stdin");
    let answer = client.read_to(b'Z');
    let error = answer.iter().find(|(kind, _)| *kind == b'E').expect("an error");
    assert!(error.1.windows(6).any(|field| field == b"C57014"), "{answer:?}");
    assert_eq!(client.run("select 1").as_deref(), Some("1"));
    drop(server.stop());
}

#[test]
fn drop_database_with_force_ends_an_idle_session() {
    let database = database();
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    other.run("create database shop");
    let mut idle = Client::ready(&server, "shop");
    other.run("drop database shop with (force)");
    assert_eq!(idle.last_words(), ["57P01"]);
    drop(server.stop());
}

/// A client never reads its row, and then sends an INSERT. The server stops without sending the
/// row, and without waiting for the client.
#[test]
fn a_client_that_does_not_read_keeps_nothing_from_ending() {
    let env = Env::memory();
    let database = Database::open_with(env.clone(), Options::new()).expect("it opens");
    let server = start(&database);
    let mut other = Client::ready(&server, "postgres");
    other.run("create table t (a int)");
    let mut deaf = Client::ready(&server, "postgres");
    let pid = deaf.run("select pg_backend_pid()").expect("a number");
    deaf.send("begin; select repeat('x', 50000000); insert into t values (666); commit");
    // The statement runs until the sockets are full. It must end whether the request comes before
    // or after that.
    other.run(&format!("select pg_terminate_backend({pid})"));
    let gone = format!("select count(*) from pg_stat_activity where pid = {pid}");
    let began = Instant::now();
    while other.run(&gone).as_deref() != Some("0") {
        assert!(began.elapsed() < LONG, "it waits for its client");
    }
    let mut deaf = Client::ready(&server, "postgres");
    deaf.send("begin; select repeat('x', 50000000); insert into t values (667); commit");
    let began = Instant::now();
    server.stop().close().expect("nothing runs any more");
    assert!(began.elapsed() < LONG, "the stop waits for a client");
    drop((database, deaf, other));
    let database = Database::open_with(env, Options::new()).expect("it opens");
    let count = database.session().query_one("select count(*) from t", ()).expect("a row");
    assert_eq!(count.get::<i64>(0).expect("a number"), 0);
}

#[test]
fn activity_shows_where_a_client_is() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    let port = client.stream.local_addr().expect("a socket").port().to_string();
    let shown = "select client_port from pg_stat_activity where pid = pg_backend_pid()";
    assert_eq!(client.run(shown), Some(port));
    let shown = "select client_addr from pg_stat_activity where pid = pg_backend_pid()";
    assert_eq!(client.run(shown).as_deref(), Some("127.0.0.1"));
    let shown = "select client_addr::text from pg_stat_activity where pid = pg_backend_pid()";
    assert_eq!(client.run(shown).as_deref(), Some("127.0.0.1/32"));
    drop(server.stop());
}

/// Sockets that never logged in once took all descriptors. A single byte now and then kept one for
/// ever.
#[test]
fn strangers_are_bounded_in_number_and_time() {
    let database = database();
    let server = start_with(&database, 8, Duration::from_millis(300));
    let mut known = Client::ready(&server, "postgres");
    let connect = || TcpStream::connect(server.address()).expect("it listens");
    let mut strangers: Vec<TcpStream> = (0..4).map(|_| connect()).collect();
    // One more than half of the sockets is told so and closed.
    let mut one_more = Client::connect(&server, "postgres");
    assert_eq!(one_more.last_words(), ["53300"]);
    for stranger in &mut strangers {
        stranger.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        stranger.write_all(&[0, 0, 1, 0, 0, 3, 0, 0]).expect("it reads");
        let began = Instant::now();
        // Send a byte of the packet now and then, as long as the server takes it.
        let ended = loop {
            assert!(began.elapsed() < LONG, "a stranger stays for ever");
            match stranger.read(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                other => break other,
            }
            if stranger.write_all(b"u").is_err() {
                break Ok(0);
            }
        };
        assert!(!matches!(ended, Ok(1..)), "it is let in: {ended:?}");
    }
    // The places of these connections are free again.
    Client::ready(&server, "postgres");
    assert_eq!(known.run("select 1").as_deref(), Some("1"));
    drop(server.stop());
}

/// `psql` asks for encryption first. It once took the error for the answer: "server sent an error
/// response during SSL exchange".
#[test]
fn one_too_many_is_told_so_after_its_requests_for_encryption() {
    let database = database();
    // A session and a connection without login take all places.
    let server = start_with(&database, 2, LONG);
    let _known = Client::ready(&server, "postgres");
    let _stranger = Client::silent(&server);
    let mut one_more = Client::silent(&server);
    for request in [80_877_103_u32, 80_877_104] {
        one_more.send_framed(None, &request.to_be_bytes());
        let mut answer = [0];
        one_more.stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *b"N", "{request}");
    }
    one_more.ask_for_session("postgres");
    assert_eq!(one_more.last_words(), ["53300"]);
    drop(server.stop());
}

/// Surplus connections are limited in number, and in time like others.
#[test]
fn those_that_are_turned_away_are_few() {
    let database = database();
    let server = start_with(&database, 2, LONG);
    let _known = Client::ready(&server, "postgres");
    let _silent: Vec<Client> = (0..=8).map(|_| Client::silent(&server)).collect();
    // This connection is refused at once, before it asks for a session.
    assert_eq!(Client::silent(&server).last_words(), ["53300"]);
    drop(server.stop());
    let server = start_with(&database, 2, Duration::from_millis(300));
    let _known = Client::ready(&server, "postgres");
    for mut silent in [Client::silent(&server), Client::silent(&server)] {
        assert!(silent.last_words().is_empty(), "it is closed");
    }
    drop(server.stop());
}
