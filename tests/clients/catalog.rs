//! Catalog queries of clients, with PostgreSQL 15's answers.
//!
//! The queries are statements that drivers, ORMs and tools send, and the commands of psql that
//! describe objects.
//!
//! `cargo test -p niwaki-tests --test clients -- --ignored record_catalog` records the answers
//! again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Server, TempDir};

use crate::record::Postgres;
use crate::wire;

/// The objects that all questions are about.
const OBJECTS: &str = include_str!("catalog_objects.sql");
/// Blocks: `== client`, the statement, a line of dashes, the answer. Behind the dashes stands the
/// part that is compared. That is everything, `columns` only, or nothing (`not yet`) where Niwaki
/// refuses the statement. `{name}` is the number of an object.
const STATEMENTS: &str = include_str!("catalog_statements.txt");
/// Blocks: `== command`, and the output of psql.
const COMMANDS: &str = include_str!("catalog_commands.txt");

/// A statement with its answer.
struct Question<'f> {
    client: &'f str,
    statement: &'f str,
    compared: &'f str,
    answer: &'f str,
}

fn questions() -> Vec<Question<'static>> {
    let read = |block: &'static str| {
        let (client, rest) = block.split_once('\n')?;
        let (statement, rest) = rest.split_once("\n----")?;
        let (compared, answer) = rest.split_once('\n').unwrap_or((rest, ""));
        Some(Question { client, statement, compared: compared.trim(), answer: answer.trim_end() })
    };
    STATEMENTS.split("\n== ").skip(1).filter_map(read).collect()
}

/// Numbers of the objects of one server, by their names.
struct Numbers(HashMap<String, String>);

impl Numbers {
    fn of(client: &mut postgres::Client) -> Self {
        const NUMBERS: &str = "select relname::text, oid::text from pg_class where oid >= 16384
            union all select conname::text, oid::text from pg_constraint where oid >= 16384
            union all select nspname::text, oid::text from pg_namespace where oid > 11 and oid <> 2200";
        let mut numbers = HashMap::new();
        for row in client.query(NUMBERS, &[]).unwrap() {
            // A constraint and its index have one name; the index comes first.
            numbers.entry(row.get(0)).or_insert(row.get(1));
        }
        Self(numbers)
    }

    /// Replaces each `{name}` by the number of that object.
    fn filled_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, number) in &self.0 {
            text = text.replace(&format!("{{{name}}}"), number);
        }
        text
    }

    /// Replaces numbers of objects by `{name}`.
    fn taken_out(&self, line: &str) -> String {
        let Some(row) = line.strip_prefix("D ") else { return line.to_owned() };
        let name = |value: &str| {
            let found = self.0.iter().find(|(_, number)| *number == value);
            found.map_or_else(|| value.to_owned(), |(name, _)| format!("{{{name}}}"))
        };
        format!("D {}", row.split('|').map(name).collect::<Vec<_>>().join("|"))
    }
}

/// One connection, spoken to in raw messages.
struct Connection(TcpStream);

impl Connection {
    fn to(port: u16) -> Self {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let startup = wire::startup(&[("user", "postgres"), ("database", "postgres")]);
        wire::send_body(&mut socket, &startup).unwrap();
        let mut connection = Self(socket);
        connection.answers();
        connection
    }

    fn answers(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some((kind, body)) = wire::read(&mut self.0).expect("an answer") {
            match kind {
                b'Z' => return lines,
                b'T' | b'D' | b't' | b'E' => lines.push(wire::answer(kind, &body, true)),
                _ => {}
            }
        }
        panic!("the server has closed the connection");
    }

    /// Asks as a simple query; a statement with parameters is described only.
    fn ask(&mut self, statement: &str) -> Vec<String> {
        if statement.contains("$1") {
            let parse = [wire::cstring(""), wire::cstring(statement), vec![0, 0]].concat();
            wire::send(&mut self.0, b'P', &parse).unwrap();
            wire::send(&mut self.0, b'D', &wire::cstring("S")).unwrap();
            wire::send(&mut self.0, b'S', &[]).unwrap();
        } else {
            wire::send(&mut self.0, b'Q', &wire::cstring(statement)).unwrap();
        }
        self.answers()
    }
}

/// Returns the answer to a question, with names for numbers; rows are sorted where the question
/// asks for no order.
fn answer(connection: &mut Connection, numbers: &Numbers, question: &Question<'_>) -> String {
    let mut lines = connection.ask(&numbers.filled_in(question.statement));
    for line in &mut lines {
        *line = numbers.taken_out(line);
    }
    // The comparison leaves open whether the columns come before a failure.
    if lines.iter().any(|line| line.starts_with("E ")) {
        lines.retain(|line| line.starts_with("E "));
    }
    if question.compared == "columns" {
        lines.retain(|line| !line.starts_with("D "));
    }
    if !is_ordered(question.statement) {
        lines.sort();
    }
    lines.join("\n")
}

/// Decides whether the statement gives the order of its rows: at its end, behind all nested
/// queries.
fn is_ordered(statement: &str) -> bool {
    let end = statement.rsplit(')').next().unwrap_or(statement);
    end.to_ascii_lowercase().contains("order by")
}

fn make_objects(client: &mut postgres::Client) {
    for statement in OBJECTS.split(";\n") {
        client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

#[test]
fn statements_of_clients_are_answered_as_by_postgresql() {
    let dir = TempDir::new("catalog-statements");
    let server = Server::start(&dir.path().join("data"), &[]);
    make_objects(&mut server.client());
    let numbers = Numbers::of(&mut server.client());
    let mut connection = Connection::to(server.port());
    let mut counts: Vec<(&str, [usize; 3])> = Vec::new();
    let mut wrong = String::new();
    for question in questions() {
        let found = answer(&mut connection, &numbers, &question);
        let accepted = !found.starts_with("E ") && !found.contains("\nE ");
        let same = found.trim_end() == question.answer;
        if counts.last().is_none_or(|(client, _)| *client != question.client) {
            counts.push((question.client, [0; 3]));
        }
        if let Some((_, [all, taken, equal])) = counts.last_mut() {
            *all += 1;
            *taken += usize::from(accepted);
            *equal += usize::from(same && question.compared.is_empty());
        }
        if question.compared != "not yet" && !same {
            let Question { client, statement, answer, .. } = question;
            writeln!(wrong, "{client}: {statement}\n expected:\n{answer}\n found:\n{found}\n")
                .unwrap();
        }
    }
    for (client, [all, accepted, same]) in &counts {
        println!("{client}: {all} statements, {accepted} accepted, {same} with the same answer");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns the output of psql for one command.
fn printed(psql: &mut Command, command: &str) -> String {
    let mut child = psql
        .arg("-X")
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql of PostgreSQL 15");
    child.stdin.take().unwrap().write_all(format!("{command}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().expect("psql ends");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    text.concat().trim_end().to_owned()
}

fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = COMMANDS.split("\n== ").skip(1);
    blocks.map(|block| block.split_once('\n').unwrap_or((block, "")))
}

#[test]
fn psql_describes_objects_as_those_of_postgresql() {
    let dir = TempDir::new("catalog-commands");
    let server = Server::start(&dir.path().join("data"), &[]);
    make_objects(&mut server.client());
    let mut wrong = String::new();
    let mut count = 0;
    for (command, expected) in commands() {
        let found = printed(&mut server.command("psql", &[]), command);
        count += 1;
        if found != expected.trim_end() {
            writeln!(wrong, "{command}\n expected:\n{expected}\n found:\n{found}\n").unwrap();
        }
    }
    assert!(count > 50, "{count}");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
#[ignore = "records the answers again; needs the server of PostgreSQL 15"]
fn record_catalog() {
    let server = Postgres::start();
    let mut client = server.client().expect("a connection");
    make_objects(&mut client);
    let numbers = Numbers::of(&mut client);
    let mut connection = Connection::to(server.port());
    let head = |file: &str| file.split("\n== ").next().unwrap_or_default().to_owned();
    let mut text = head(STATEMENTS);
    for question in questions() {
        let answer = answer(&mut connection, &numbers, &question);
        let Question { client, statement, compared, .. } = question;
        let dashes = format!("---- {compared}");
        let dashes = dashes.trim_end();
        write!(text, "\n== {client}\n{statement}\n{dashes}\n{answer}\n").unwrap();
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/");
    std::fs::write(format!("{folder}catalog_statements.txt"), text).unwrap();
    let mut text = head(COMMANDS);
    for (command, _) in commands() {
        let mut psql = Command::new("psql");
        psql.args(["-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]);
        psql.arg(server.port().to_string());
        write!(text, "\n== {command}\n{}\n", printed(&mut psql, command)).unwrap();
    }
    std::fs::write(format!("{folder}catalog_commands.txt"), text).unwrap();
}
