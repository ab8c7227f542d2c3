//! PostgreSQL's own pgbench and psql against the released binary.

mod catalog;
mod notify;
mod psql;
mod record;
mod trace;
mod wire;

use support::{Server, TempDir, check, text};

/// Runs pgbench and requires exit code 0, no failed transaction, and no error line.
fn pgbench(server: &Server, arguments: &[&str]) -> String {
    let output = server.run("pgbench", arguments);
    let shown = text(&output);
    assert!(output.status.success(), "pgbench {arguments:?}: {shown}");
    assert!(
        !shown.contains("ERROR") && !shown.contains("aborted"),
        "pgbench {arguments:?}: {shown}"
    );
    if !arguments.contains(&"-i") {
        assert!(shown.contains("number of failed transactions: 0 (0.000%)"), "{shown}");
    }
    shown
}

fn number(client: &mut postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// Requires that the four sums are equal, as after every TPC-B-like run (history holds every
/// delta).
fn balances_agree(client: &mut postgres::Client, only_tpcb: bool) {
    let accounts = number(client, "select sum(abalance)::int8 from pgbench_accounts");
    let tellers = number(client, "select sum(tbalance)::int8 from pgbench_tellers");
    let branches = number(client, "select sum(bbalance)::int8 from pgbench_branches");
    let history = number(client, "select coalesce(sum(delta), 0)::int8 from pgbench_history");
    assert_eq!(accounts, history, "sum of abalance against sum of history's deltas");
    assert_eq!(tellers, branches, "sum of tbalance against sum of bbalance");
    if only_tpcb {
        assert_eq!(accounts, tellers, "all four sums after TPC-B-like runs only");
    }
}

#[test]
fn pgbench_runs_in_every_mode_and_the_sums_agree() {
    let dir = TempDir::new("pgbench");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &[]);
    pgbench(&server, &["-i", "-s", "1"]);
    let transactions = std::env::var("NIWAKI_PGBENCH_TRANSACTIONS").unwrap_or("200".to_owned());
    let run = |mode: &str, more: &[&str]| {
        let mut arguments = vec!["-n", "-c", "8", "-j", "2", "-t", &transactions, "-M", mode];
        arguments.extend(more);
        pgbench(&server, &arguments);
    };
    for mode in ["simple", "extended", "prepared"] {
        run(mode, &[]);
    }
    balances_agree(&mut server.client(), true);
    for mode in ["simple", "extended", "prepared"] {
        run(mode, &["-N"]);
        run(mode, &["-S"]);
    }
    balances_agree(&mut server.client(), false);
    // The default options: with the vacuum of the small tables and the truncation of history.
    pgbench(&server, &["-c", "2", "-t", "20"]);
    assert_eq!(number(&mut server.client(), "select count(*) from pgbench_history"), 40);
    assert!(server.stop(), "a clean stop: {}", server.stderr());
    check(&data);
}

#[test]
fn scripts_with_variables_pipelines_and_gset_run() {
    let dir = TempDir::new("scripts");
    let server = Server::start(&dir.path().join("data"), &[]);
    pgbench(&server, &["-i", "-s", "1"]);
    let script = dir.path().join("gaussian.sql");
    std::fs::write(
        &script,
        "\\set aid1 random_gaussian(1, 100000 * :scale, 4.0)\n\
         \\set aid2 random_gaussian(1, 100000 * :scale, 4.5)\n\
         \\set delta random(-5000, 5000)\n\
         begin;\n\
         update pgbench_accounts set abalance = abalance + :delta where aid = :aid1;\n\
         select abalance from pgbench_accounts where aid = :aid2 \\gset\n\
         end;\n",
    )
    .unwrap();
    let script = script.to_str().unwrap();
    for mode in ["simple", "extended", "prepared"] {
        pgbench(&server, &["-n", "-c", "4", "-j", "2", "-t", "100", "-M", mode, "-f", script]);
    }
    let pipeline = dir.path().join("pipeline.sql");
    std::fs::write(
        &pipeline,
        "\\startpipeline\nselect 1;\nselect abalance from pgbench_accounts where aid = 7;\n\
         select 2;\n\\endpipeline\n",
    )
    .unwrap();
    let pipeline = pipeline.to_str().unwrap();
    for mode in ["extended", "prepared"] {
        pgbench(&server, &["-n", "-c", "2", "-t", "50", "-M", mode, "-f", pipeline]);
    }
}

/// Returns psql's output for `sql`, unaligned.
fn psql(server: &Server, sql: &str) -> String {
    let output = server.run("psql", &["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]);
    assert!(output.status.success(), "psql -c {sql}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn psql_commands_copy_timing_and_gdesc_work() {
    let dir = TempDir::new("psql");
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(psql(&server, "select 1 + 1, 'a' || 'b', null::int is null"), "2|ab|t");
    psql(&server, "create table t (a int primary key, b text, c numeric(10,2))");
    psql(&server, "insert into t values (1, 'one', 1.5), (2, null, 22.25)");
    assert_eq!(psql(&server, "select * from t order by a"), "1|one|1.50\n2||22.25");

    let file = dir.path().join("t.copy");
    let script = format!(
        "\\timing on\n\\copy t to '{0}'\ntruncate t;\n\\copy t from '{0}'\n\
         select count(*), sum(c) from t;\nselect a, b, c from t \\gdesc\n",
        file.display()
    );
    let path = dir.path().join("script.sql");
    std::fs::write(&path, script).unwrap();
    let output =
        server.run("psql", &["-X", "-A", "-v", "ON_ERROR_STOP=1", "-f", path.to_str().unwrap()]);
    let shown = text(&output);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("COPY 2") && shown.contains("Time: "), "{shown}");
    assert!(shown.contains("2|23.75"), "{shown}");
    assert!(shown.contains("a|integer\nb|text\nc|numeric(10,2)"), "{shown}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\tone\t1.50\n2\t\\N\t22.25\n");

    let dump = server.run("pg_dump", &["--no-owner"]);
    let shown = text(&dump);
    assert!(dump.status.success(), "{shown}");
    assert!(shown.contains("1\tone\t1.50\n") && !shown.contains("GRANT"), "{shown}");
}

#[test]
fn an_error_names_its_place_and_the_session_goes_on() {
    let dir = TempDir::new("errors");
    let server = Server::start(&dir.path().join("data"), &[]);
    let output = server.run("psql", &["-X", "-c", "select nothing", "-c", "select 7"]);
    let shown = text(&output);
    assert!(shown.contains("ERROR:  column \"nothing\" does not exist"), "{shown}");
    assert!(shown.contains("LINE 1: select nothing\n               ^"), "{shown}");
    assert!(shown.contains("(1 row)"), "{shown}");
}

/// A driver (asyncpg) waited for ever when it described a statement that the server refused. The
/// driver sends Flush, and sends Sync only when the answer is there. The server skipped that Flush
/// with all else behind the error, and kept the error for the Sync.
#[test]
fn an_error_comes_before_sync() {
    let dir = TempDir::new("flush");
    let server = Server::start(&dir.path().join("data"), &[]);
    let mut socket = server.socket();
    let startup = wire::startup(&[("user", "postgres"), ("database", "postgres")]);
    wire::send_body(&mut socket, &startup).unwrap();
    while wire::read(&mut socket).unwrap().expect("a message").0 != b'Z' {}
    let parse = [wire::cstring("s"), wire::cstring("select nothing"), vec![0, 0]].concat();
    let describe = [&b"S"[..], &wire::cstring("s")].concat();
    for (kind, body) in [(b'P', parse), (b'D', describe), (b'H', Vec::new())] {
        wire::send(&mut socket, kind, &body).unwrap();
    }
    let (kind, body) = wire::read(&mut socket).unwrap().expect("a message");
    assert_eq!(wire::answer(kind, &body, true), "E 42703");
    wire::send(&mut socket, b'S', &[]).unwrap();
    assert_eq!(wire::read(&mut socket).unwrap().expect("a message").0, b'Z');
}

#[test]
fn a_stop_tells_sessions_and_the_second_server_is_refused() {
    let dir = TempDir::new("stop");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &[]);
    let mut client = server.client();
    client.batch_execute("create table t (a int)").unwrap();
    client.batch_execute("begin; insert into t values (1)").unwrap();
    let refused = Server::try_start(&data, &[]).unwrap_err();
    assert!(refused.contains(&server.pid().to_string()), "names the holder: {refused}");
    assert!(server.stop(), "a clean stop: {}", server.stderr());
    let error = client.batch_execute("commit").unwrap_err();
    let told = error.code().is_some_and(|code| code.code() == "57P01");
    assert!(told || error.is_closed(), "{error:?}");
    server.restart();
    assert_eq!(number(&mut server.client(), "select count(*) from t"), 0);
    assert_eq!(server.try_client().map(drop).ok(), Some(()));
}

#[test]
fn other_addresses_and_open_socket_folders_are_refused() {
    let dir = TempDir::new("listen");
    let data = dir.path().join("data");
    let output = std::process::Command::new(support::binary())
        .args(["serve", "--listen", "0.0.0.0:0", "--data-dir"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("loopback"), "{}", text(&output));

    let sockets = dir.path().join("sockets");
    std::fs::create_dir(&sockets).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&sockets, open).unwrap();
    let path = sockets.to_str().unwrap();
    let refused = Server::try_start(&data, &["--socket-dir", path]).unwrap_err();
    assert!(refused.contains("0755") && refused.contains("0700"), "{refused}");
    let private = dir.path().join("private");
    let path = private.to_str().unwrap();
    let server = Server::start(&data, &["--socket-dir", path]);
    let output = server.run("psql", &["-X", "-A", "-t", "-h", path, "-c", "select 5"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5", "{}", text(&output));
}
