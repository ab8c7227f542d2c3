//! Records `psql.trace`: psql 15 talks to PostgreSQL 15 through a relay that writes down all
//! messages.
//!
//! Needs PostgreSQL 15's programs in `$POSTGRES_BIN` (default `/usr/lib/postgresql/15/bin`):
//! `cargo test -p niwaki-tests --test clients -- --ignored record_psql`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::TempDir;

use crate::wire;

/// The recorded runs: name, arguments of psql, its standard input.
const SCENARIOS: &[(&str, &[&str], &str)] = &[
    (
        "-c with one statement",
        &[
            "-c",
            "select 1 as one, 'x'::text as t, null::int4 as n, 1.5::numeric(10,2) as d, true as b, \
             date '2024-02-29' as day, 2.5::float8 as f, 'c'::char(3) as c, 7::int8 as big",
        ],
        "",
    ),
    (
        "-c with several statements",
        &[
            "-c",
            "create table t (a int primary key, b text, c numeric(10,2)); \
             insert into t values (1, 'one', 1.5), (2, null, 22.25); \
             update t set b = 'two' where a = 2; select * from t order by a; \
             delete from t where a = 3",
        ],
        "",
    ),
    (
        "-c with several statements, one of which fails",
        &[
            "-c",
            "insert into t values (3, 'three', 3); select 1 / 0; select 2",
            "-c",
            "select count(*) from t",
            "-c",
            "",
        ],
        "",
    ),
    (
        "-1 runs everything in one transaction",
        &["-1", "-c", "insert into t values (5, 'five', 5)", "-c", "delete from t where a = 5"],
        "",
    ),
    (
        "several results of one string",
        &[],
        "select 1 as a\\; select 'two' as b\\; insert into t values (9, 'nine', 9)\\; delete from t where a = 9;\n",
    ),
    (
        "errors inside and outside of transactions",
        &[],
        "begin;\ninsert into t values (1, 'again', 0);\nselect 1;\nsavepoint s;\ncommit;\n\
         begin;\nsavepoint s;\nselect nothing;\nrollback to s;\nselect count(*) from t;\n\
         release s;\ncommit;\ncommit;\nbegin;\nbegin;\nrollback;\nrollback;\n\
         selec 1;\nselect * from nothing;\nselect 'x'::int;\nselect '2024-13-01'::date;\n\
         insert into t values (null, 'x', 1);\nsavepoint s;\nselect 1/0;\n",
    ),
    (
        "ON_ERROR_ROLLBACK",
        &[],
        "\\set ON_ERROR_ROLLBACK on\nbegin;\ninsert into t values (1, 'again', 0);\n\
         insert into t values (4, 'four', 4);\ncommit;\n",
    ),
    (
        "AUTOCOMMIT off",
        &[],
        "\\set AUTOCOMMIT off\nselect count(*) from t;\ndelete from t;\nrollback;\n\
         delete from t where a = 4;\ncommit;\n",
    ),
    (
        "\\timing and \\gset",
        &[],
        "\\timing on\nselect 7 as seven, null as nothing, 'x' as x \\gset\nselect :seven + 1 as eight;\n",
    ),
    (
        "\\gdesc",
        &[],
        "select a, b, c, a + 1 as next, now() as moment from t \\gdesc\n\
         select $1::int4 + 1 as p \\gdesc\nselect nothing \\gdesc\ninsert into t values (8) \\gdesc\n",
    ),
    ("\\gexec", &[], "select 'select ' || a || ' as n' from t order by a \\gexec\n"),
    (
        "FETCH_COUNT",
        &[],
        "\\set FETCH_COUNT 2\nselect i, 'v' || i as v from generate_series(1, 5) as i;\n\
         select 1 / (2 - i) as q from generate_series(1, 3) as i;\n\
         begin;\nselect i from generate_series(1, 2) as i;\ncommit;\n\
         update t set b = b where a = 99;\n",
    ),
    (
        "\\copy and COPY",
        &[],
        "\\copy t to 't.copy'\n\\copy (select a, c from t order by a) to 't.part'\n\
         create table u (like_a int primary key, b text, c numeric(10,2));\n\\copy u from 't.copy'\n\
         select * from u order by 1;\ncopy u to stdout;\ncopy u (like_a, b) from stdin;\n7\tseven\n8\t\\N\n\\.\n\
         copy u (like_a) from stdin;\nx\n\\.\ncopy u (like_a) from stdin;\n7\n\\.\ncopy u from stdin;\n10\n\\.\n\
         copy nothing to stdout;\ncopy u (like_a, b) from stdin with (delimiter ',', null 'none');\n11,none\n\\.\n\
         select count(*), max(b) from u;\n\\copy u from 'no such file'\ndrop table u;\n",
    ),
    (
        "\\watch until an error",
        &[],
        "create sequence watched;\nselect 6 / (3 - nextval('watched')) as n \\watch 0.01\ndrop sequence watched;\n",
    ),
    (
        "notices and settings",
        &[],
        "drop table if exists nothing;\ncreate table if not exists t (a int);\n\
         set client_min_messages = error;\ndrop table if exists nothing;\nreset client_min_messages;\n\
         set timezone = 'Europe/Zurich';\nshow timezone;\nset application_name = 'other';\n\
         begin;\nset local timezone = 'UTC';\nrollback;\nshow timezone;\nset nothing = 1;\n",
    ),
    (
        "prepared statements and cursors in SQL",
        &[],
        "prepare p (int) as select $1 + 1 as next;\nexecute p (1);\ndeallocate p;\nexecute p (1);\n\
         begin;\ndeclare c cursor for select i from generate_series(1, 5) as i;\nfetch 1 from c;\n\
         savepoint s;\nfetch 1 from c;\ndeclare d cursor for select 1 as one;\nfetch d;\n\
         rollback to s;\nfetch 1 from c;\nsavepoint s2;\ndeclare e cursor for select 2 as two;\n\
         release s2;\nmove 1 from c;\nfetch e;\nfetch 1 from c;\nclose c;\nfetch c;\nrollback;\n\
         begin;\nsavepoint s;\ndeclare d cursor for select 1 as one;\nrollback to s;\nfetch d;\nrollback;\n",
    ),
    ("cancel", &[], "select pg_sleep(600);\nselect 'goes on' as it;\n"),
    ("the end", &["-c", "drop table t"], ""),
];

/// Statement during which psql is interrupted.
const INTERRUPTED: &str = "select pg_sleep(600)";

/// PostgreSQL 15 on a directory of its own; stopped when dropped.
pub(crate) struct Postgres {
    process: Child,
    port: u16,
    _dir: TempDir,
}

/// Returns a program of PostgreSQL's, as a user that may run the server.
fn program(name: &str) -> Command {
    let bin = std::env::var_os("POSTGRES_BIN")
        .map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from);
    let id = Command::new("id").arg("-u").output().expect("id");
    if id.stdout != b"0\n" {
        return Command::new(bin.join(name));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(bin.join(name));
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new("postgres");
        // A user without the right to do so does not need to.
        let _ = Command::new("chown").arg("postgres:").arg(dir.path()).status();
        let data = dir.path().join("data");
        let made = program("initdb")
            .args(["-U", "postgres", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8", "-D"])
            .arg(&data)
            .output()
            .expect("initdb");
        assert!(made.status.success(), "{}", support::text(&made));
        let port = free_port();
        let process = program("postgres")
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-k"])
            .arg(dir.path())
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres");
        let server = Self { process, port, _dir: dir };
        while server.client().is_none() {
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn client(&self) -> Option<postgres::Client> {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres").dbname("postgres");
        config.connect(postgres::NoTls).ok()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.process.wait();
    }
}

/// The lines of the messages that passed so far.
type Lines = Arc<Mutex<Vec<String>>>;

/// Relays one connection until both sides have closed it.
fn relay(mut client: TcpStream, port: u16, lines: &Lines, sleeping: &(dyn Fn() + Sync)) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).expect("PostgreSQL");
    let say = |line: String| lines.lock().unwrap().push(line);
    // Messages without a type come first: requests for encryption, then the parameters.
    loop {
        let Ok(body) = wire::read_body(&mut client) else { return };
        match u32::from_be_bytes([body[0], body[1], body[2], body[3]]) {
            80_877_103 => {
                say("> ssl".to_owned());
                wire::send_body(&mut server, &body).unwrap();
                let mut byte = [0];
                server.read_exact(&mut byte).unwrap();
                say(format!("< ssl {}", char::from(byte[0])));
                client.write_all(&byte).unwrap();
            }
            80_877_102 => {
                say("> cancel".to_owned());
                wire::send_body(&mut server, &body).unwrap();
                let _ = std::io::copy(&mut server, &mut std::io::sink());
                return;
            }
            _ => {
                let words: Vec<_> = body[4..]
                    .split(|byte| *byte == 0)
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect();
                let pairs: Vec<_> = words
                    .chunks_exact(2)
                    .take_while(|pair| !pair[0].is_empty())
                    .map(|pair| pair.join("="))
                    .collect();
                say(format!("> connect {}", pairs.join(" ")));
                wire::send_body(&mut server, &body).unwrap();
                break;
            }
        }
    }
    thread::scope(|scope| {
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        scope.spawn(move || {
            while let Ok(Some((kind, body))) = wire::read(&mut from) {
                lines.lock().unwrap().push(format!("< {}", wire::answer(kind, &body, true)));
                if wire::send(&mut to, kind, &body).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
        while let Ok(Some((kind, body))) = wire::read(&mut client) {
            let line = wire::request(kind, &body)
                .unwrap_or_else(|| panic!("psql sends {}", char::from(kind)));
            let sleeps = line.contains(INTERRUPTED);
            lines.lock().unwrap().push(format!("> {line}"));
            wire::send(&mut server, kind, &body).unwrap();
            if sleeps {
                sleeping();
            }
        }
        let _ = server.shutdown(Shutdown::Write);
    });
}

/// Runs psql against PostgreSQL behind a relay, and returns the messages that passed.
fn converse(server: &Postgres, folder: &Path, arguments: &[&str], input: &str) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().unwrap().port();
    let mut psql = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"])
        .arg(port.to_string())
        .args(arguments)
        .current_dir(folder)
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql");
    psql.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let pid = psql.id().to_string();
    let lines = Lines::default();
    let interrupt = || {
        // Interrupted earlier, psql would have nothing to cancel.
        let mut watcher = server.client().expect("a connection");
        let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        while watcher.query_one(asleep, &[]).unwrap().get::<_, i64>(0) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    };
    thread::scope(|scope| {
        let (lines, interrupt) = (&lines, &interrupt);
        let accepting = scope.spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The empty connection below says that psql has ended.
                if client.peek(&mut [0]).unwrap_or(0) == 0 {
                    return;
                }
                scope.spawn(move || relay(client, server.port, lines, interrupt));
            }
        });
        psql.wait().expect("psql ends");
        drop(TcpStream::connect(("127.0.0.1", port)));
        accepting.join().expect("the relay");
    });
    Arc::into_inner(lines).expect("all relays have ended").into_inner().unwrap()
}

#[test]
#[ignore = "records the trace again; needs the server of PostgreSQL 15"]
fn record_psql() {
    let server = Postgres::start();
    let folder = TempDir::new("psql-files");
    let mut trace = String::from(
        "# What psql 15 sends (\">\") and what PostgreSQL 15 answers (\"<\"): message types, tags, oids, values.\n\
         # Recorded again by: cargo test -p niwaki-tests --test clients -- --ignored record_psql\n",
    );
    for (name, arguments, input) in SCENARIOS {
        let lines = converse(&server, folder.path(), arguments, input);
        trace.push_str(&format!("\n== {name}\n{}\n", lines.join("\n")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/psql.trace");
    std::fs::write(path, trace).expect("the trace is written");
}
