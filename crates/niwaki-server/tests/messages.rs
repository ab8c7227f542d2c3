//! Messages that a driver seldom sends, answered as PostgreSQL answers them.
//!
//! The formats that a client had asked for were kept by a portal's name. A cursor that took the
//! name of a portal that CLOSE or COMMIT had ended gave its rows in the formats of that portal.

mod common;

use common::{Client, database, start};

/// A message: its kind and its body.
type Message = (u8, Vec<u8>);

fn parse(statement: &str, sql: &str) -> Message {
    (b'P', format!("{statement}\0{sql}\0\0\0").into_bytes())
}

/// Bind, without parameters.
fn bind(portal: &str, statement: &str, results: &[u16]) -> Message {
    let mut body = format!("{portal}\0{statement}\0\0\0\0\0").into_bytes();
    body.extend(list(results));
    (b'B', body)
}

/// Bind of the unnamed statement and portal.
fn bind_values(formats: &[u16], values: &[Option<&[u8]>]) -> Message {
    let mut body = [&b"\0\0"[..], &list(formats)].concat();
    body.extend(u16::try_from(values.len()).expect("few").to_be_bytes());
    for value in values {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("short"));
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    body.extend([0, 0]);
    (b'B', body)
}

/// A count, and so many numbers of two bytes.
fn list(numbers: &[u16]) -> Vec<u8> {
    let count = u16::try_from(numbers.len()).expect("few");
    [count].iter().chain(numbers).flat_map(|number| number.to_be_bytes()).collect()
}

fn execute(portal: &str, max_rows: u32) -> Message {
    (b'E', [portal.as_bytes(), &[0], &max_rows.to_be_bytes()].concat())
}

/// Parse, Bind and Execute of a statement without a name.
fn step(sql: &str) -> [Message; 3] {
    [parse("", sql), bind("", "", &[]), execute("", 0)]
}

/// The answers to these messages, without ParseComplete and BindComplete. The last of them has
/// ReadyForQuery.
fn answers(client: &mut Client, messages: &[Message]) -> Vec<String> {
    for (kind, body) in messages {
        client.send_framed(Some(*kind), body);
    }
    let readies = messages.iter().filter(|(kind, _)| matches!(kind, b'Q' | b'S' | b'F')).count();
    let read: Vec<Message> = (0..readies).flat_map(|_| client.read_to(b'Z')).collect();
    read.iter().filter(|(kind, _)| !matches!(kind, b'1' | b'2')).map(shown).collect()
}

/// A message in words: an error by its SQLSTATE and text, a row by the bytes of its first value.
fn shown((kind, body): &Message) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        b'E' => {
            let fields: Vec<String> = body.split(|byte| *byte == 0).map(text).collect();
            let field = |code: char| fields.iter().find_map(|field| field.strip_prefix(code));
            format!("{} {}", field('C').expect("a code"), field('M').expect("a text"))
        }
        b'C' => text(&body[..body.len() - 1]),
        b'D' => format!("{:?}", body.get(6..).unwrap_or_default()),
        b'Z' => text(body),
        other => char::from(*other).to_string(),
    }
}

const SYNC: Message = (b'S', Vec::new());

#[test]
fn a_cursor_gives_text_whatever_had_its_name() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    let binary = [parse("", "select 1"), bind("p", "", &[1]), execute("p", 1)];
    let declare = step("declare p cursor with hold for select 7");
    for end in ["close p", "close all", "commit"] {
        client.run("begin");
        let messages = [&binary[..], &step(end), &declare, &[execute("p", 0), SYNC]].concat();
        let said = answers(&mut client, &messages);
        let rows: Vec<&str> =
            said.iter().map(|line| &**line).filter(|line| line.starts_with('[')).collect();
        assert_eq!(rows, ["[0, 0, 0, 1]", "[55]"], "{end}: {said:?}");
        client.run("rollback; close all");
    }
    drop(server.stop());
}

/// PostgreSQL judges the formats of results when there is something to send in them.
#[test]
fn format_codes_of_results_are_refused_with_the_first_row() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    let run = |client: &mut Client, sql: &str, formats: &[u16]| {
        let messages = [parse("", sql), bind("", "", formats), execute("", 0), SYNC];
        answers(client, &messages)
    };
    assert_eq!(run(&mut client, "select 1", &[7]), ["22023 unsupported format code: 7", "I"]);
    let null = run(&mut client, "select 1, null", &[0, 0xffff]);
    assert_eq!(null, ["22023 unsupported format code: -1", "I"]);
    assert_eq!(run(&mut client, "select 1 where false", &[7]), ["SELECT 0", "I"]);
    assert_eq!(run(&mut client, "select", &[7]), ["[]", "SELECT 1", "I"]);
    drop(server.stop());
}

/// A NULL was let in, whatever format it had.
#[test]
fn format_codes_of_parameters_are_refused_for_null_too() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    let run = |client: &mut Client, formats: &[u16], values: &[Option<&[u8]>]| {
        let statement = parse("", "select $1::int4, $2::int4");
        answers(client, &[statement, bind_values(formats, values), execute("", 0), SYNC])
    };
    let null: [Option<&[u8]>; 2] = [Some(b"1"), None];
    let refused = |code| [format!("22023 unsupported format code: {code}"), "I".to_owned()];
    assert_eq!(run(&mut client, &[0, 7], &null), refused(7));
    assert_eq!(run(&mut client, &[0, 0xffff], &null), refused(-1));
    assert_eq!(run(&mut client, &[7], &null), refused(7));
    // The first fault is told.
    let wrong = run(&mut client, &[0, 7], &[Some(b"x"), None]);
    assert_eq!(wrong, ["22P02 invalid input syntax for type integer: \"x\"", "I"]);
    assert_eq!(run(&mut client, &[0, 1], &null), ["[49]", "SELECT 1", "I"]);
    drop(server.stop());
}
