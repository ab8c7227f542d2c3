//! NOTIFY: room for a message is reserved before the commit.

use niwaki::Database;

/// The bound of the queue counts the listeners at the reservation; one more would exceed it.
#[test]
fn nobody_begins_to_listen_between_reservation_and_delivery() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut sender, mut listener) = (database.session(), database.session());
    sender.execute("begin", ()).unwrap();
    sender.execute("notify x, 'sent'", ()).unwrap();
    sender.prepare_commit().unwrap();
    listener.execute("set lock_timeout = '1ms'", ()).unwrap();
    assert_eq!(listener.execute("listen x", ()).unwrap_err().sqlstate, "55P03");
    sender.execute("commit", ()).unwrap();
    listener.execute("listen x", ()).unwrap();
    assert_eq!(listener.take_notification(), None);
}
