//! Malformed messages, absurd statements and violated constraints.
//!
//! The one session gets the right error, and no other session loses anything.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use support::{Server, TempDir, check};

fn server(name: &str) -> (TempDir, Server) {
    let dir = TempDir::new(name);
    let server = Server::start(&dir.path().join("data"), &[]);
    (dir, server)
}

/// Returns a connection past start-up, with everything up to `ReadyForQuery` read.
fn established(server: &Server) -> TcpStream {
    let mut socket = server.socket();
    let mut packet = 196_608u32.to_be_bytes().to_vec();
    packet.extend(b"user\0postgres\0\0");
    let length = u32::try_from(packet.len() + 4).unwrap();
    socket.write_all(&length.to_be_bytes()).unwrap();
    socket.write_all(&packet).unwrap();
    loop {
        let (kind, _) = message(&mut socket).expect("a greeting");
        if kind == b'Z' {
            return socket;
        }
    }
}

fn message(socket: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    socket.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut body = vec![0; length - 4];
    socket.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// Returns the SQLSTATE of the next error; `None` when the connection ends without one.
fn sqlstate(socket: &mut TcpStream) -> Option<String> {
    loop {
        let (kind, body) = message(socket)?;
        if kind == b'E' {
            let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'))?;
            return String::from_utf8(field[1..].to_vec()).ok();
        }
    }
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn malformed_messages_cost_only_their_session() {
    let (_dir, mut server) = server("wire");
    let mut witness = server.client();
    witness.batch_execute("create table t (a int)").unwrap();
    witness.batch_execute("begin; insert into t values (1)").unwrap();
    // The server first checks whether the statement exists.
    let bind = |body| [framed(b'P', b"\0select $1::int4\0\0\0"), framed(b'B', body)].concat();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("a length of one gigabyte", vec![b'Q', 0x40, 0, 0, 0], "54000"),
        ("a length below four", vec![b'Q', 0, 0, 0, 1], "08P01"),
        ("an unknown type", framed(b'~', b""), "08P01"),
        ("text without its end", framed(b'Q', b"select 1"), "08P01"),
        ("a Bind cut short", bind(b"\0\0\0\x05"), "08P01"),
        ("a Bind with more values than bytes", bind(b"\0\0\0\0\xff\xff"), "08P01"),
        ("a negative value length", bind(b"\0\0\0\0\0\x01\xff\xff\xff\x00\0\0"), "08P01"),
        ("bytes behind a Sync", framed(b'S', b"x"), "08P01"),
        ("an unknown Describe", framed(b'D', b"x\0"), "08P01"),
        ("invalid UTF-8", framed(b'Q', b"select '\xc3\x28'\0"), "22021"),
    ];
    for (what, bytes, expected) in cases {
        let mut socket = established(&server);
        socket.write_all(bytes).unwrap();
        assert_eq!(sqlstate(&mut socket).as_deref(), Some(*expected), "{what}");
    }
    // A message that ends in the middle, and garbage instead of a start-up packet.
    let mut socket = established(&server);
    socket.write_all(&framed(b'Q', b"select 1\0")[..7]).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(message(&mut socket), None);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 9, 0, 3, 0, 0, b'u']] {
        let mut socket = server.socket();
        socket.write_all(garbage).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    witness.batch_execute("commit").unwrap();
    let count: i64 = server.client().query_one("select count(*) from t", &[]).unwrap().get(0);
    assert_eq!(count, 1);
    assert!(server.stop());
    assert!(!server.stderr().contains("panicked"), "a panic");
}

/// A message that is wrong inside ends alone: the next message is where its length says.
#[test]
fn a_session_goes_on_behind_a_message_that_is_wrong_inside() {
    let (_dir, server) = server("goes-on");
    let mut socket = established(&server);
    let bytes = [
        framed(b'Q', b"select 1"),
        framed(b'D', b"x\0"),
        framed(b'Q', b"select 2\0"),
        framed(b'S', b""),
        framed(b'Q', b"select 3\0"),
    ];
    socket.write_all(&bytes.concat()).unwrap();
    let kinds: Vec<u8> =
        std::iter::from_fn(|| message(&mut socket).map(|(kind, _)| kind)).take(8).collect();
    assert_eq!(String::from_utf8_lossy(&kinds), "EZEZTDCZ");
}

/// After an error the server skips all messages up to Sync; then the session answers again.
#[test]
fn errors_in_the_extended_protocol_skip_to_sync() {
    let (_dir, server) = server("skip");
    let mut socket = established(&server);
    let mut bytes = framed(b'P', b"\0select $1::int4\0\0\x01\0\0\xff\xff");
    bytes.extend(framed(b'P', b"\0select 2\0\0\0"));
    bytes.extend(framed(b'S', b""));
    bytes.extend(framed(b'P', b"\0select 3\0\0\0"));
    bytes.extend(framed(b'B', b"\0\0\0\0\0\0\0\0"));
    bytes.extend(framed(b'E', b"\0\0\0\0\0"));
    bytes.extend(framed(b'S', b""));
    socket.write_all(&bytes).unwrap();
    let kinds: Vec<u8> =
        std::iter::from_fn(|| message(&mut socket).map(|(kind, _)| kind)).take(7).collect();
    assert_eq!(String::from_utf8_lossy(&kinds), "EZ12DCZ", "unknown type oid, then a query");
}

#[test]
fn statements_that_fail_say_why() {
    let (_dir, mut server) = server("statements");
    let mut client = server.client();
    client
        .batch_execute(
            "create table t (a int primary key, b int not null, c int check (c > 0), d varchar(3),
                             e int2, u int unique);
             insert into t values (1, 1, 1, 'x', 1, 1)",
        )
        .unwrap();
    let deep = format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let nots = format!("select {}true", "not ".repeat(100_000));
    let minus = format!("select {}1", "- ".repeat(50_000));
    let cases: &[(&str, &str)] = &[
        ("select 2147483647 + 1", "22003"),
        ("select 9223372036854775807 + 1", "22003"),
        ("select 1 / 0", "22012"),
        ("select 1 % 0", "22012"),
        ("select 'abc'::int", "22P02"),
        ("select 32768::int2", "22003"),
        ("insert into t values (1, 1, 1, 'y', 1, 2)", "23505"),
        ("insert into t values (2, 1, 1, 'y', 1, 1)", "23505"),
        ("insert into t values (2, null, 1, 'y', 1, 3)", "23502"),
        ("insert into t values (2, 1, 0, 'y', 1, 3)", "23514"),
        ("insert into t values (2, 1, 1, 'long', 1, 3)", "22001"),
        ("insert into t values (2, 1, 1, 'y', 40000, 3)", "22003"),
        ("update t set a = null", "23502"),
        ("selec 1", "42601"),
        ("select * from nowhere", "42P01"),
        ("select nothing from t", "42703"),
        ("select nofunction(1)", "42883"),
        ("select 1 + true", "42883"),
        ("create table t (a int)", "42P07"),
        ("drop table nowhere", "42P01"),
        ("begin isolation level serializable", "0A000"),
        ("create index on t using gin (a)", "0A000"),
        ("set nosuchsetting = 1", "42704"),
        ("set client_encoding = 'LATIN1'", "0A000"),
        (&deep, "54001"),
        (&nots, "54001"),
        (&minus, "54001"),
    ];
    for (sql, expected) in cases {
        let Err(error) = client.batch_execute(sql) else {
            panic!("accepted: {}", &sql[..sql.len().min(80)]);
        };
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(
            code.as_deref(),
            Some(*expected),
            "{} gave {error:?}",
            &sql[..sql.len().min(80)]
        );
        let _ = client.batch_execute("rollback");
    }
    let row = client.query_one("select count(*), sum(a) from t", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
    assert!(server.stop());
    assert!(!server.stderr().contains("panicked"), "a panic");
}

/// The stack that a level of a statement takes depends on the compiler's choices for a release. So
/// the released program is tried: whatever it answers, it must go on.
#[test]
fn nested_statements_leave_the_server_alive() {
    let (_dir, mut server) = server("nested");
    let kinds: &[(&str, &str, &str)] = &[
        ("not ", "true", ""),
        ("- ", "1", ""),
        ("(", "1", ")"),
        ("(", "true", " is true)"),
        ("(", "'a'", " collate \"C\")"),
        ("case when false and true then 0 else ", "1", " end"),
        ("case ", "1", " when 1 then 1 else 2 end"),
        ("coalesce(null, ", "1", ")"),
        ("nullif(", "1", ", 2)"),
        ("row(", "1", ")"),
        ("(1 = any(array[", "1", "]))::int"),
        ("(1 in (", "1", "))::int"),
        ("(select ", "1", ")"),
        ("* from (select ", "1", ") x"),
        ("exists (select ", "1", ")"),
        ("1 union (select ", "1", ")"),
        ("1. operator(pg_catalog.+) ", "1", ""),
        ("1_0. operator(pg_catalog.+) ", "1", ""),
        ("(1.) operator(pg_catalog.+) ", "1", ""),
        ("+ x.\u{b}and + ", "1", ""),
        ("now() at time zone 1. at time zone ", "'x'", ""),
    ];
    let mut client = server.client();
    for levels in [300, 1_000, 2_000, 3_000, 5_000, 20_000] {
        for (open, inner, close) in kinds {
            let sql = format!("select {}{inner}{}", open.repeat(levels), close.repeat(levels));
            // The text that a view keeps is written by the library, with brackets left out.
            let view =
                format!("begin; create view nested as {sql}; select * from nested; rollback");
            for statement in [&sql, &format!("explain {sql}"), &view] {
                let answer = client.batch_execute(statement);
                let closed = answer.is_err_and(|error| error.code().is_none());
                assert!(!closed, "{levels} levels of {open}{inner}{close}");
            }
            client.batch_execute("rollback").unwrap();
        }
    }
    assert!(server.stop());
    assert!(!server.stderr().contains("panicked"), "a panic");
}

#[test]
fn what_is_too_large_is_refused_by_size() {
    let (_dir, server) = server("large");
    let mut client = server.client();
    // A large value is no reason to refuse. A thousand values that cannot all go out of line are
    // refused.
    let columns: Vec<String> = (1..=1000).map(|column| format!("c{column} text")).collect();
    client
        .batch_execute(&format!(
            "create table wide ({}); insert into wide (c1) values (repeat('x', 100000)); \
             create table t (a text); create index on t (a); insert into t values ('a')",
            columns.join(", ")
        ))
        .unwrap();
    let values: Vec<String> = (1..=1000).map(|i| format!("repeat(md5('{i}'), 2)")).collect();
    let too_wide = format!("insert into wide values ({})", values.join(", "));
    let long: String = (0..200).map(|i| format!("{:x}", i * 0x9e37_79b9_7f4a_7c15_u128)).collect();
    let too_long = format!("insert into t values ('{long}')");
    for sql in [&too_wide, &too_long] {
        let error = client.batch_execute(&format!("begin; {sql}")).unwrap_err();
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("54000"), "{error:?}");
        client.batch_execute("rollback").unwrap();
    }
    let row = client.query_one("select count(*), sum(length(c1)) from wide", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 100_000));
    let row = client.query_one("select count(*) from t where a >= ''", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

/// A file system of limited size, unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// Mounts a file system of this size; `None` where mounting is not allowed.
    fn mount(path: &std::path::Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(path)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Self(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// A full disk fails statements, not the server. Acknowledged changes stay, and with room again,
/// work goes on.
#[test]
fn a_full_disk_fails_the_statement_and_loses_nothing() {
    let dir = TempDir::new("full");
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk"), "120m") else {
        println!("skipped: mounting a tmpfs needs root");
        return;
    };
    let data = disk.0.join("data");
    let ballast = disk.0.join("ballast");
    let mut server =
        Server::start(&data, &["--set", "shared_buffers=2MB", "--set", "max_wal_size=48MB"]);
    let mut client = server.client();
    client.batch_execute("create table t (id int primary key, filler text)").unwrap();
    // The rest of the disk but a little.
    let mut full = std::fs::File::create(&ballast).unwrap();
    let chunk = vec![0; 1 << 20];
    while full.write_all(&chunk).is_ok() {}
    drop(full);
    let length = std::fs::metadata(&ballast).unwrap().len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&ballast)
        .unwrap()
        .set_len(length - (6 << 20))
        .unwrap();

    let mut acknowledged = 0_i64;
    let error = loop {
        let sql = format!(
            "insert into t select g, repeat('x', 500) from generate_series({}, {}) g",
            acknowledged + 1,
            acknowledged + 100
        );
        match client.batch_execute(&sql) {
            Ok(()) => acknowledged += 100,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000_000, "the disk never fills");
    };
    let code = error.code().map(|code| code.code().to_owned());
    assert_eq!(code.as_deref(), Some("53100"), "after {acknowledged} rows: {error:?}");
    let count = |client: &mut postgres::Client| -> i64 {
        client.query_one("select count(*) from t", &[]).unwrap().get(0)
    };
    assert_eq!(count(&mut client), acknowledged, "the session goes on");
    std::fs::remove_file(&ballast).unwrap();
    client.batch_execute("insert into t values (0, 'room again')").unwrap();
    server.kill();
    server.restart();
    assert_eq!(count(&mut server.client()), acknowledged + 1);
    assert!(server.stop());
    assert!(!server.stderr().contains("panicked"), "a panic");
    check(&data);
}

/// Tables need no descriptor each.
#[test]
fn three_thousand_tables_need_few_descriptors() {
    const TABLES: usize = 3000;
    let dir = TempDir::new("tables");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &["--set", "max_files_per_process=64"]);
    let open = |server: &Server| {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        let paths = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        paths.filter(|path| path.starts_with(data.join("base"))).count()
    };
    let mut client = server.client();
    // Many tables in a transaction: the test counts files, not commits.
    for batch in 0..TABLES / 500 {
        let tables: String = (batch * 500..(batch + 1) * 500)
            .map(|n| format!("create table t{n} (a int); insert into t{n} values ({n});"))
            .collect();
        client.batch_execute(&format!("begin; {tables} commit")).unwrap();
        assert!(open(&server) <= 64, "{}", open(&server));
    }
    let verify = |client: &mut postgres::Client, server: &Server| {
        for n in 0..TABLES {
            let row = client.query_one(&format!("select a from t{n}"), &[]).unwrap();
            assert_eq!(usize::try_from(row.get::<_, i32>(0)).unwrap(), n);
        }
        assert!((32..=64).contains(&open(server)), "{}", open(server));
    };
    client.batch_execute("checkpoint").unwrap();
    verify(&mut client, &server);
    server.kill();
    server.restart();
    verify(&mut server.client(), &server);
    assert!(server.stop());
    check(&data);
}

/// SIGHUP ended the server, because it was not handled. PostgreSQL goes on.
#[test]
fn sighup_ends_nothing() {
    let (_dir, mut server) = server("hangup");
    let mut client = server.client();
    let pid = server.pid().to_string();
    let sent = std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap();
    assert!(sent.success());
    client.batch_execute("select 1").unwrap();
    assert!(server.stop());
    let said = server.stderr();
    assert!(said.contains("SIGHUP"), "{said}");
}

/// A line that could not be written to standard error was a panic: of the start, or of a thread.
#[test]
fn a_full_standard_error_keeps_nothing_from_working() {
    let dir = TempDir::new("full-stderr");
    for redirection in ["2>/dev/full", "2>&-"] {
        let shell = ["sh", "-c", &format!("exec \"$0\" \"$@\" {redirection}")];
        let mut server = Server::try_start_under(&shell, &dir.path().join("data"), &[]).unwrap();
        server.client().batch_execute("create table if not exists t (a int); checkpoint").unwrap();
        assert!(server.stop(), "{redirection}");
    }
    check(&dir.path().join("data"));
}

/// 300 sockets that never logged in took all descriptors, and the next checkpoint panicked.
#[test]
fn strangers_leave_descriptors_for_checkpoints() {
    let dir = TempDir::new("descriptors");
    let data = dir.path().join("data");
    let limit = ["prlimit", "--nofile=150:150"];
    let mut server = Server::try_start_under(&limit, &data, &[]).unwrap();
    let mut client = server.client();
    client.batch_execute("create table t (a int)").unwrap();
    let strangers: Vec<_> = (0..300).map(|_| server.socket()).collect();
    for n in 0..100 {
        client
            .batch_execute(&format!("create table t{n} (a int); insert into t values ({n})"))
            .unwrap();
    }
    client.batch_execute("checkpoint").unwrap();
    drop(strangers);
    assert!(server.stop());
    let said = server.stderr();
    assert!(!said.contains("panicked"), "{said}");
    check(&data);
}
