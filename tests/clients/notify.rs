//! Messages from other sessions reach a client that asks for nothing.

use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use support::{Server, TempDir};

/// Returns the messages that a client gets, at most `most`, before it has waited for `wait` in
/// vain.
fn heard(client: &mut Client, wait: Duration, most: usize) -> Vec<(i32, String, String)> {
    let mut notifications = client.notifications();
    let heard = notifications.timeout_iter(wait).take(most);
    heard
        .map(|one| Ok((one.process_id(), one.channel().to_owned(), one.payload().to_owned())))
        .collect()
        .expect("notifications")
}

#[test]
fn an_idle_client_hears_of_messages_outside_of_its_transactions() {
    const LONG: Duration = Duration::from_mins(1);
    let dir = TempDir::new("notify");
    let server = Server::start(&dir.path().join("data"), &[]);
    let (mut a, mut b) = (server.client(), server.client());
    let sender: i32 = b.query_one("select pg_backend_pid()", &[]).unwrap().get(0);
    let said = |channel: &str, payload: &str| (sender, channel.to_owned(), payload.to_owned());
    a.batch_execute("listen x; listen \"Y\"").unwrap();
    for round in 0..3 {
        let payload = format!("one {round}");
        b.batch_execute(&format!("notify x, '{payload}'; notify \"Y\"")).unwrap();
        assert_eq!(heard(&mut a, LONG, 2), [said("x", &payload), said("Y", "")]);
    }
    a.batch_execute("begin").unwrap();
    b.batch_execute("notify x, 'two'").unwrap();
    assert_eq!(heard(&mut a, Duration::from_millis(100), 1), []);
    a.batch_execute("commit").unwrap();
    assert_eq!(heard(&mut a, LONG, 1), [said("x", "two")]);
    // The session still answers its own client.
    assert_eq!(a.query_one("select 1", &[]).unwrap().get::<_, i32>(0), 1);
    a.batch_execute("unlisten *").unwrap();
    b.batch_execute("notify x").unwrap();
    assert_eq!(heard(&mut a, Duration::from_millis(100), 1), []);
    a.batch_execute("set idle_session_timeout = '200ms'").unwrap();
    // The time limit also holds for a client that waits for messages.
    let mut watcher = server.client();
    let own = "select count(*) from pg_stat_activity where backend_type = 'client backend'";
    while watcher.query_one(own, &[]).unwrap().get::<_, i64>(0) > 2 {
        std::thread::yield_now();
    }
}
