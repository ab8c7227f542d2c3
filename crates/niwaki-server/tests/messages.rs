//! Messages that a driver seldom sends, with PostgreSQL's answers.
//!
//! The formats that a client had asked for were once kept by a portal's name. A cursor could take
//! the name of a portal that CLOSE or COMMIT had ended. Its rows then had the formats of that
//! portal.

mod common;

use std::io::Write;

use common::{Client, database, start};

/// A message: its kind and its body.
type Message = (u8, Vec<u8>);

fn parse(statement: &str, sql: &str) -> Message {
    (b'P', format!("{statement}\0{sql}\0\0\0").into_bytes())
}

/// Builds a Bind without parameters.
fn bind(portal: &str, statement: &str, results: &[u16]) -> Message {
    let mut body = format!("{portal}\0{statement}\0\0\0\0\0").into_bytes();
    body.extend(list(results));
    (b'B', body)
}

/// Builds a Bind of the unnamed statement and portal.
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

/// Encodes a count, and that many numbers of two bytes.
fn list(numbers: &[u16]) -> Vec<u8> {
    let count = u16::try_from(numbers.len()).expect("few");
    [count].iter().chain(numbers).flat_map(|number| number.to_be_bytes()).collect()
}

fn execute(portal: &str, max_rows: u32) -> Message {
    (b'E', [portal.as_bytes(), &[0], &max_rows.to_be_bytes()].concat())
}

/// Builds Parse, Bind and Execute of an unnamed statement.
fn step(sql: &str) -> [Message; 3] {
    [parse("", sql), bind("", "", &[]), execute("", 0)]
}

/// Sends these messages, and returns the answers up to `ReadyForQuery`.
fn answers(client: &mut Client, messages: &[Message]) -> Vec<String> {
    for (kind, body) in messages {
        client.send_framed(Some(*kind), body);
    }
    heard(client)
}

/// Returns the messages up to `ReadyForQuery`, without `ParseComplete` and `BindComplete`.
fn heard(client: &mut Client) -> Vec<String> {
    let read = client.read_to(b'Z');
    read.iter().filter(|(kind, _)| !matches!(kind, b'1' | b'2')).map(shown).collect()
}

/// Describes a message: an error by its SQLSTATE and text, a row by the bytes of its first value.
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

/// PostgreSQL checks the formats of results only when there is a value to send in them.
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
    // A statement without rows takes any number of formats. Rows without columns do not.
    assert_eq!(run(&mut client, "set work_mem = 65", &[0, 1]), ["SET", "I"]);
    let refused = "08P01 bind message has 2 result formats but query has 0 columns";
    assert_eq!(run(&mut client, "select", &[0, 1]), [refused, "I"]);
    drop(server.stop());
}

/// A NULL was once accepted in any format.
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
    // The first fault is reported.
    let wrong = run(&mut client, &[0, 7], &[Some(b"x"), None]);
    assert_eq!(wrong, ["22P02 invalid input syntax for type integer: \"x\"", "I"]);
    assert_eq!(run(&mut client, &[0, 1], &null), ["[49, 255, 255, 255, 255]", "SELECT 1", "I"]);
    drop(server.stop());
}

/// A function call is refused in the same way as a statement. The refusal fails the block or undoes
/// the implicit transaction, ends with `ReadyForQuery`, and is skipped before Sync.
#[test]
fn function_calls_are_refused() {
    let database = database();
    let server = start(&database);
    let mut client = Client::ready(&server, "postgres");
    // int4pl(1, 2), in text.
    let mut body = 177_u32.to_be_bytes().to_vec();
    body.extend(list(&[0]));
    body.extend(2_u16.to_be_bytes());
    for argument in [b"1", b"2"] {
        body.extend(1_u32.to_be_bytes());
        body.extend(argument);
    }
    body.extend([0, 0]);
    let call = (b'F', body);
    let refused = "0A000 function call messages are not supported";
    assert_eq!(answers(&mut client, std::slice::from_ref(&call)), [refused, "I"]);
    client.run("create table t (a int)");
    let insert = step("insert into t values (1)");
    let pipeline = [&insert[..], std::slice::from_ref(&call), &insert, &[SYNC]].concat();
    assert_eq!(answers(&mut client, &pipeline), ["INSERT 0 1", refused, "I"]);
    assert_eq!(heard(&mut client), ["INSERT 0 1", "I"]);
    assert_eq!(client.run("select count(*) from t").as_deref(), Some("1"));
    let skipped = answers(&mut client, &[parse("", "selec"), call.clone(), SYNC]);
    assert_eq!(skipped, ["42601 syntax error at or near \"selec\"", "I"]);
    client.run("begin");
    assert_eq!(answers(&mut client, std::slice::from_ref(&call)), [refused, "E"]);
    let failed =
        "25P02 current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(answers(&mut client, &[call]), [failed, "E"]);
    client.run("rollback");
    drop(server.stop());
}

/// A COPY message with a wrong length was once reported as an unexpected message.
#[test]
fn a_copy_says_why_it_cannot_read_on() {
    let database = database();
    let server = start(&database);
    Client::ready(&server, "postgres").run("create table t (a text)");
    let cases: [(&[u8], &str); 5] = [
        (
            b"d\x7f\xff\xff\xff",
            "54000 message of type 'd' is too long: 2147483647 bytes, the limit is 67108864",
        ),
        (b"c\0\x01\0\0", "08P01 message of type 'c' is too long: 65536 bytes, the limit is 10000"),
        (b"d\0\0\0\x01", "08P01 invalid message length"),
        (b"Q\x7f\xff\xff\xff", "08P01 unexpected message type 0x51 during COPY from stdin"),
        (b"z\0\0\0\x04", "08P01 unexpected message type 0x7A during COPY from stdin"),
    ];
    for (bytes, expected) in cases {
        let mut client = Client::ready(&server, "postgres");
        client.send("copy t from stdin");
        client.read_to(b'G');
        client.stream.write_all(bytes).expect("the server reads");
        let said = client.read_to(b'E');
        assert_eq!(said.iter().map(shown).collect::<Vec<_>>(), [expected]);
        // The connection ends, because the beginning of the next message is unknown.
        assert_eq!(client.last_words(), ["08P01"], "{expected}");
    }
    drop(server.stop());
}
