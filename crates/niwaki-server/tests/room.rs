//! Messages for which there is no memory.
//!
//! When memory ran out while the data of a COPY was read, the server once closed the connection. It
//! reported the end of the stream, although the client was still there. Other such messages ended
//! their session, too. Now such a message is dropped, and the next one is answered.

#[expect(dead_code, reason = "one test needs a part of it")]
mod common;

use std::alloc::System;

use common::{Client, database, start};
use niwaki_env::memory::{Counting, set_limit};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Sends a message for which there is no memory. Returns the answer up to `ReadyForQuery`.
fn too_much(client: &mut Client, kind: u8, body: &[u8]) -> Vec<u8> {
    set_limit(0);
    client.send_framed(Some(kind), body);
    if kind == b'P' {
        client.send_framed(Some(b'H'), b"");
        client.send_framed(Some(b'S'), b"");
    }
    let answer = client.read_to(b'Z');
    set_limit(usize::MAX);
    let error = answer.iter().find(|(kind, _)| *kind == b'E').expect("an error");
    assert!(error.1.windows(6).any(|field| field == b"C53200"), "{answer:?}");
    answer.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn a_message_without_room_is_dropped() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    client.run("create table t (a text)");
    let large = "x".repeat(4 << 20);

    client.send("copy t from stdin");
    client.read_to(b'G');
    assert_eq!(too_much(&mut client, b'd', large.as_bytes()), b"EZ");
    client.send_framed(Some(b'd'), b"left over\n");
    client.send_framed(Some(b'c'), b"");
    assert_eq!(client.run("select count(*) from t").as_deref(), Some("0"));

    let query = format!("select '{large}'\0");
    assert_eq!(too_much(&mut client, b'Q', query.as_bytes()), b"EZ");
    assert_eq!(client.run("select 1").as_deref(), Some("1"));

    let statement = format!("\0{query}\0\0");
    assert_eq!(too_much(&mut client, b'P', statement.as_bytes()), b"EZ");
    assert_eq!(client.run("select 2").as_deref(), Some("2"));
    drop(server.stop());
}
