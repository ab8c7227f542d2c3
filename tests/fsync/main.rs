//! A failed fsync of the server as users run it, brought about by `strace`.
//!
//! The process ends, and the sync is not tried again. No commit that waited for the sync is
//! acknowledged, and the next start finds every acknowledged commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::{Server, TempDir, check};

const CLIENTS: i64 = 4;
/// Most rows that a client inserts: it must meet the failure long before.
const ROWS_MAX: i64 = 5000;

/// Panics with instructions where there is no `strace`: an untested rule is no rule.
fn need_strace() {
    let works = Command::new("strace").args(["-f", "true"]).output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "strace is needed, with the right to trace: apt-get install strace"
    );
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Starts a server whose n-th sync of one of `paths` (counted in each thread) fails.
fn start_failing(data: &Path, trace: &Path, paths: &[PathBuf], nth: u32) -> Server {
    let mut wrapper = vec!["strace".to_owned()];
    // -D: the server stays the child of the test, and the tracer is no ancestor.
    wrapper.extend(["-D", "-f", "-q", "-y", "-o"].map(str::to_owned));
    wrapper.push(trace.display().to_string());
    wrapper.extend(["-e".to_owned(), "trace=fsync,fdatasync".to_owned()]);
    wrapper.extend(["-e".to_owned(), format!("inject=fsync,fdatasync:error=EIO:when={nth}")]);
    for path in paths {
        wrapper.extend(["-P".to_owned(), path.display().to_string()]);
    }
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    match Server::try_start_under(&wrapper, data, &[]) {
        Ok(server) => server,
        Err(message) => panic!("the server did not start under strace: {message}"),
    }
}

/// Makes a directory with tables, cleanly shut down.
fn prepare(data: &Path) {
    let mut server = Server::start(data, &[]);
    server
        .client()
        .batch_execute("create table t (client int8, n int8, primary key (client, n))")
        .unwrap();
    assert!(server.stop());
}

/// Inserts row after row until the server is gone; returns the last acknowledged one.
fn work(mut connection: postgres::Client, client: i64) -> i64 {
    let mut insert = |n: i64| connection.execute("insert into t values ($1, $2)", &[&client, &n]);
    // Ends with the first row that is not acknowledged.
    (1..=ROWS_MAX).take_while(|n| insert(*n).is_ok()).last().unwrap_or(0)
}

/// Requires that every acknowledged row is there, without a gap, and at most the one in flight
/// beyond.
fn verify(data: &Path, acknowledged: &[i64]) {
    check(data);
    let mut server = Server::start(data, &[]);
    let mut client = server.client();
    for (number, acknowledged) in acknowledged.iter().enumerate() {
        let row = client
            .query_one(
                "select count(*), coalesce(max(n), 0) from t where client = $1",
                &[&i64::try_from(number).unwrap()],
            )
            .unwrap();
        let (count, last): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(count, last, "client {number}: a gap");
        assert!(
            (*acknowledged..=acknowledged + 1).contains(&last),
            "client {number}: {acknowledged} acknowledged, {last} found"
        );
    }
    client.batch_execute("insert into t values (-1, 1); checkpoint").unwrap();
    assert!(server.stop());
    check(data);
}

/// Returns the trace, once the tracer has written the end of it.
fn finished(trace: &Path) -> String {
    for _ in 0..3000 {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        if text.contains("(INJECTED)") && text.contains("+++ killed by SIGABRT") {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("strace injected nothing: {}", std::fs::read_to_string(trace).unwrap_or_default());
}

/// Requires that the process ended for the right reason, and that the file whose sync failed was
/// not synced again.
fn ended(server: &mut Server, trace: &Path, reason: &str) {
    let status = server.wait();
    assert_eq!(status, "signal 6", "ended by abort");
    let said = server.stderr();
    assert!(said.contains("PANIC") && said.contains(reason), "{said}");
    let trace = finished(trace);
    let lines: Vec<&str> = trace.lines().collect();
    let at = lines.iter().position(|line| line.contains("(INJECTED)")).expect("seen above");
    let file = lines[at].split(['<', '>']).nth(1).expect("strace -y names the file");
    let again = lines[at + 1..]
        .iter()
        .find(|line| line.contains("sync(") && line.contains(&format!("<{file}>")));
    assert_eq!(again, None, "{file} was synced again after the failure");
}

#[test]
fn a_failed_sync_of_the_log_ends_the_server() {
    need_strace();
    for nth in [9, 30] {
        let dir = TempDir::new("fsync-log");
        let (data, trace) = (dir.path().join("data"), dir.path().join("trace"));
        prepare(&data);
        let mut server = start_failing(&data, &trace, &files(&data.join("wal")), nth);
        // All clients connect before the first writes: the server may end soon.
        let connections: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        let acknowledged: Vec<i64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CLIENTS)
                .zip(connections)
                .map(|(client, connection)| scope.spawn(move || work(connection, client)))
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert!(acknowledged.iter().any(|&n| n > 0), "{acknowledged:?}");
        assert!(acknowledged.iter().all(|&n| n < ROWS_MAX), "the failure was passed over");
        ended(&mut server, &trace, "could not sync the log");
        verify(&data, &acknowledged);
    }
}

#[test]
fn a_failed_sync_of_a_table_ends_the_server() {
    need_strace();
    let dir = TempDir::new("fsync-table");
    let (data, trace) = (dir.path().join("data"), dir.path().join("trace"));
    prepare(&data);
    let mut server = start_failing(&data, &trace, &files(&data.join("base")), 1);
    let mut client = server.client();
    for n in 1..=200_i64 {
        client.execute("insert into t values (0, $1)", &[&n]).unwrap();
    }
    // All rows are in the log; the checkpoint that would free the log fails.
    let error = client.batch_execute("checkpoint").unwrap_err();
    assert!(error.code().is_none(), "an answer instead of a broken connection: {error}");
    ended(&mut server, &trace, "could not sync base/");
    verify(&data, &[200]);
}
