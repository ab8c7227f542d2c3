//! One session: its thread reads a message, has the library execute it, and answers.
//!
//! ```text
//!   start-up ──► idle ──► Query ───────────────► ReadyForQuery ──► idle
//!                 │  └──► Parse/Bind/Describe/Execute/Close … Sync ──► ReadyForQuery ──► idle
//!                 │                    └─ error: skip to Sync ─┘
//!                 └─ Terminate, end of stream, FATAL ──► closed
//! ```
//!
//! The session writes once per Sync, Query or error, and at each Flush. While COPY FROM STDIN runs,
//! the library pulls data through [`Wire::copy_in_data`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use niwaki::{
    ColumnInfo, Datum, ExecuteOutcome, ResultFormats, ResultSink, RowSink, Session, SqlError,
    TextSettings, TypeOid,
};

use niwaki_types::growing::{ask_to_grow, charge_more};
use niwaki_types::{ColumnType, InputContext, TypeError};

use crate::connection::{Input, Output, Socket, is_timeout};
use crate::report;
use crate::wake::{Wake, Woken};
use crate::wire::backend::{self, Field};
use crate::wire::frontend::{self, Bind, Message, ProtocolError};

/// Reason for the end of a session, for the log.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The client sent Terminate, or closed its socket.
    Client,
    /// The server ended the session: shutdown, or `pg_terminate_backend`.
    Terminated,
    /// The client violated the protocol.
    Protocol(ProtocolError),
    /// The socket failed.
    Socket,
}

/// Reason why there is no message to execute.
#[derive(Debug)]
enum NoMessage {
    /// No message came within the time of a read.
    Silence,
    /// There was no memory for a message of this kind, which is dropped.
    NoRoom(u8),
    /// No further message will come.
    Ending(Ending),
}

/// A connection as the library sees it: the destination of results and the source of COPY data.
pub(crate) struct Wire<'c> {
    pub(crate) socket: &'c Socket,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Settings for showing values as text: a copy of the session's, renewed when they change.
    text: TextSettings,
    /// Result formats of the portal being executed.
    formats: ResultFormats,
    /// Types of the columns being sent.
    types: Vec<TypeOid>,
    /// Output position of the answer to a statement that must be sent wholly or not at all. `None`
    /// without such a statement, and once part of the answer has been sent.
    whole_from: Option<usize>,
    /// True while a COPY in the binary format runs.
    binary_copy: bool,
    /// A protocol error from a read of COPY data inside the library. It ends the session.
    broken: Option<Ending>,
    /// Means by which other sessions wake this one; set from the first LISTEN on.
    wake: Option<Wake>,
    /// Longest silence of the client while its next message is awaited.
    read_timeout: Option<Duration>,
    /// Read timeout that the socket has now.
    socket_timeout: Option<Duration>,
}

impl<'c> Wire<'c> {
    pub(crate) fn new(socket: &'c Socket, input: Input, output: Output) -> Self {
        Self {
            socket,
            input,
            output,
            text: TextSettings::default(),
            formats: ResultFormats::default(),
            types: Vec::new(),
            whole_from: None,
            binary_copy: false,
            broken: None,
            wake: None,
            read_timeout: None,
            socket_timeout: None,
        }
    }

    /// Sets how values are shown as text.
    pub(crate) fn set_text_settings(&mut self, settings: &TextSettings) {
        self.text = settings.clone();
    }

    fn flush(&mut self) {
        self.output.flush(self.socket);
        self.whole_from = None;
    }

    fn flush_if_large(&mut self) {
        self.output.flush_if_large(self.socket);
        if self.output.bytes.is_empty() {
            self.whole_from = None;
        }
    }

    /// Appends an error, and removes the partial answer of a whole-or-nothing statement.
    fn report_error(&mut self, error: &SqlError) {
        if let Some(at) = self.whole_from.take() {
            self.output.bytes.truncate(at);
        }
        report::append(&mut self.output.bytes, b'E', error);
    }

    /// Does the same, except for the error that ends the session: that one is written once, as
    /// FATAL.
    fn report_unless_last(&mut self, session: &Session, error: &SqlError) {
        if session.is_terminated() && error.sqlstate == TERMINATED {
            if let Some(at) = self.whole_from.take() {
                self.output.bytes.truncate(at);
            }
            return;
        }
        self.report_error(error);
    }

    /// Appends a `RowDescription` with the given formats.
    fn describe(&mut self, columns: &[ColumnInfo], formats: &ResultFormats) {
        backend::row_description(
            &mut self.output.bytes,
            columns.iter().enumerate().map(|(i, column)| Field {
                name: &column.name,
                table: column.table,
                attribute: column.attribute,
                type_oid: column.oid().0,
                type_size: niwaki::type_length(column.oid()),
                typmod: column.column_type.typmod,
                format: formats.of(i),
            }),
        );
    }

    /// Announces the rows of a simple query.
    fn announce(&mut self, columns: &[ColumnInfo], formats: ResultFormats) {
        self.describe(columns, &formats);
        self.set_types(columns);
        self.formats = formats;
    }

    fn set_types(&mut self, columns: &[ColumnInfo]) {
        self.types.clear();
        self.types.extend(columns.iter().map(|column| column.oid()));
    }

    /// Ends the session, because the beginning or the purpose of the next message is unknown.
    fn lose_synchronization(&mut self) {
        self.broken = Some(Ending::Protocol(ProtocolError {
            sqlstate: "08P01",
            message: "terminating connection because protocol synchronization was lost".to_owned(),
        }));
    }

    /// Returns the error of a COPY that cannot read any further data.
    fn cut_off_in_copy(&mut self, ending: Ending) -> SqlError {
        match ending {
            Ending::Protocol(error) => match self.input.pending().first().copied() {
                Some(kind) if !frontend::is_of_copy(kind) => self.unexpected_in_copy(kind),
                _ => {
                    self.lose_synchronization();
                    report::protocol(error)
                }
            },
            gone => {
                self.broken = Some(gone);
                let message = "unexpected EOF on client connection with an open transaction";
                SqlError::new("08006", message)
            }
        }
    }

    /// Returns the error for a message that is not allowed during COPY. It ends the session,
    /// because it is unknown whether the client will go on sending data.
    fn unexpected_in_copy(&mut self, kind: u8) -> SqlError {
        self.lose_synchronization();
        SqlError::new(
            "08P01",
            format!("unexpected message type 0x{kind:02X} during COPY from stdin"),
        )
    }

    /// Fails when the session's statement must end.
    fn interrupted(&self) -> Result<(), SqlError> {
        self.output.session().map_or(Ok(()), niwaki::Terminator::interrupted)
    }

    /// Reads until a whole message has arrived.
    fn wait_for_message(&mut self) -> Result<(), NoMessage> {
        loop {
            match frontend::frame(self.input.pending()) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => match self.fill() {
                    Ok(true) => {}
                    Ok(false) => return Err(NoMessage::Ending(Ending::Client)),
                    Err(error) if is_timeout(&error) => return Err(NoMessage::Silence),
                    Err(error) => return Err(self.give_up(error)),
                },
                Err(error) => return Err(NoMessage::Ending(Ending::Protocol(error))),
            }
        }
    }

    /// Waits for more bytes. Returns false at the end of the stream. If the client stays silent for
    /// a while, memory that the session has freed goes back to the system.
    fn fill(&mut self) -> io::Result<bool> {
        let most = self.read_timeout;
        if !gives_back_within(most) {
            return self.fill_within(most);
        }
        match self.fill_within(Some(SILENT)) {
            Err(error) if is_timeout(&error) => {}
            filled => return filled,
        }
        niwaki_env::memory::give_back();
        self.fill_within(most.map(|most| most.saturating_sub(SILENT)))
    }

    /// Waits for more bytes, at most for `most`. Sets the socket's timeout only if it changes.
    fn fill_within(&mut self, most: Option<Duration>) -> io::Result<bool> {
        if self.socket_timeout != most {
            // If this fails, the socket is gone, and the read reports it.
            let _ = self.socket.set_read_timeout(most);
            self.socket_timeout = most;
        }
        self.input.fill(self.socket)
    }

    /// Gives up the incoming message if there was no memory for it, otherwise the session.
    fn give_up(&mut self, error: io::Error) -> NoMessage {
        match frontend::announced(self.input.pending()) {
            Some((kind, bytes)) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.input.give_up(bytes);
                NoMessage::NoRoom(kind)
            }
            _ => NoMessage::Ending(Ending::Socket),
        }
    }
}

impl RowSink for Wire<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        let (formats, types, text) = (&self.formats, &self.types, &self.text);
        formats.check(row.len())?;
        let begun = self.output.bytes.len();
        backend::data_row(&mut self.output.bytes, row.len(), |i, out| {
            let value = &row[i];
            if matches!(value, Datum::Null) {
                return Ok(false);
            }
            let type_oid = types.get(i).copied().unwrap_or(TypeOid::TEXT);
            // A message is no longer than a value may be.
            let bytes = match value {
                Datum::Text(text) => text.len(),
                Datum::Bytea(bytes) => bytes.len(),
                _ => 0,
            };
            charge_more(out.len() - begun, bytes)?;
            ask_to_grow(out.capacity(), out.len(), bytes)?;
            if formats.of(i) == 0 {
                niwaki_types::write_text(value, type_oid, text, out);
            } else {
                niwaki_types::write_binary(value, type_oid, &text.types, out);
            }
            Ok::<_, SqlError>(true)
        })?;
        self.flush_if_large();
        Ok(())
    }

    fn takes_numbers(&self, column: usize) -> bool {
        self.formats.of(column) != 0
    }
}

impl ResultSink for Wire<'_> {
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<(), SqlError> {
        // Only simple queries announce their columns. All but BINARY cursors give text.
        self.announce(columns, ResultFormats::default());
        Ok(())
    }

    fn binary_columns(&mut self, columns: &[ColumnInfo]) -> Result<(), SqlError> {
        self.announce(columns, ResultFormats::All(1));
        Ok(())
    }

    fn whole_or_nothing(&mut self) {
        self.whole_from = Some(self.output.bytes.len());
    }

    fn complete(&mut self, tag: &str) {
        self.whole_from = None;
        backend::command_complete(&mut self.output.bytes, tag);
    }

    fn empty_query(&mut self) {
        backend::empty_query(&mut self.output.bytes);
    }

    fn notice(&mut self, notice: &SqlError) {
        // The notice stays in the output, so the output before it stays too.
        self.whole_from = None;
        report::append(&mut self.output.bytes, b'N', notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        backend::parameter_status(&mut self.output.bytes, name, value);
    }

    fn text_settings(&mut self, settings: &TextSettings) {
        self.set_text_settings(settings);
    }

    fn copy_format(&mut self, binary: bool) {
        self.binary_copy = binary;
    }

    fn copy_in(&mut self, columns: usize) -> Result<(), SqlError> {
        backend::copy_response(&mut self.output.bytes, b'G', self.binary_copy, columns);
        self.flush();
        // The session's loop resets the timeout when it waits for the next message.
        self.read_timeout = Some(COPY_STEP);
        Ok(())
    }

    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool, SqlError> {
        loop {
            match self.wait_for_message() {
                Ok(()) => {}
                Err(NoMessage::Silence) => {
                    self.interrupted()?;
                    continue;
                }
                Err(NoMessage::NoRoom(kind)) if frontend::is_of_copy(kind) => {
                    return Err(message_too_large());
                }
                Err(NoMessage::NoRoom(kind)) => return Err(self.unexpected_in_copy(kind)),
                Err(NoMessage::Ending(ending)) => {
                    // The end of its stream wakes a session that must end.
                    self.interrupted()?;
                    return Err(self.cut_off_in_copy(ending));
                }
            }
            let Ok(Some(frame)) = frontend::frame(self.input.pending()) else {
                continue; // cannot happen: a whole message is there
            };
            let (kind, used) = (frame.kind(), frame.len());
            let outcome = match kind {
                b'd' | b'c' | b'f' => match frame.read() {
                    // A line may be larger than the free memory.
                    Ok(Message::CopyData(bytes)) => {
                        let asked = ask_to_grow(buffer.capacity(), buffer.len(), bytes.len());
                        asked.map_err(SqlError::from).map(|()| {
                            buffer.extend_from_slice(bytes);
                            true
                        })
                    }
                    Ok(Message::CopyFail(reason)) => {
                        Err(SqlError::new("57014", format!("COPY from stdin failed: {reason}")))
                    }
                    Ok(_) => Ok(false),
                    Err(error) => Err(report::protocol(error)),
                },
                // PostgreSQL ignores these messages during COPY.
                b'H' | b'S' => {
                    self.input.consume(used);
                    continue;
                }
                _ => Err(self.unexpected_in_copy(kind)),
            };
            self.input.consume(used);
            return outcome;
        }
    }

    fn copy_out_begin(&mut self, columns: usize) -> Result<(), SqlError> {
        self.whole_from = None;
        backend::copy_response(&mut self.output.bytes, b'H', self.binary_copy, columns);
        Ok(())
    }

    fn copy_out(&mut self, line: &[u8]) -> Result<(), SqlError> {
        charge_more(0, line.len())?;
        let out = &mut self.output.bytes;
        ask_to_grow(out.capacity(), out.len(), line.len())?;
        backend::copy_data(out, line);
        self.flush_if_large();
        Ok(())
    }

    fn copy_out_end(&mut self) {
        backend::copy_done(&mut self.output.bytes);
    }
}

/// Serves an authenticated session until it ends.
pub(crate) fn serve(session: &mut Session, wire: &mut Wire<'_>) -> Ending {
    // After an error in an extended-protocol message, all messages up to Sync are skipped.
    let mut skipping = false;
    ready(session, wire);
    loop {
        if wire.output.failure().is_some() {
            return Ending::Socket;
        }
        if session.is_terminated() {
            return Ending::Terminated;
        }
        if frontend::frame(wire.input.pending()).is_ok_and(|frame| frame.is_none()) {
            let timeout = session.idle_timeout();
            if wire.wake.is_some() {
                match wait_idle(session, wire, timeout) {
                    Ok(()) => {}
                    Err(ending) => return ending,
                }
            }
            wire.read_timeout = timeout;
        }
        match wire.wait_for_message() {
            Ok(()) => {}
            Err(NoMessage::Silence) => {
                fatal(wire, &session.idle_timeout_error());
                return Ending::Client;
            }
            Err(NoMessage::NoRoom(kind)) => {
                // A skipped message needs no memory, nor does the remaining data of a failed COPY.
                if !skipping && !matches!(kind, b'd' | b'c' | b'f') {
                    skipping = fail_message(session, wire, kind, &message_too_large());
                }
                continue;
            }
            Err(NoMessage::Ending(Ending::Client)) if session.is_terminated() => {
                return Ending::Terminated;
            }
            Err(NoMessage::Ending(ending)) => return ended(wire, ending),
        }
        // The message borrows from the input while the session writes to the output.
        let input = std::mem::replace(&mut wire.input, Input::empty());
        let Ok(Some(frame)) = frontend::frame(input.pending()) else {
            return Ending::Client; // cannot happen: a whole message is there
        };
        let (used, kind) = (frame.len(), frame.kind());
        let step = if skipping && !frame.is_never_skipped() {
            Ok(Next::Go)
        } else {
            // Sync and Terminate end the skipping, even if they cannot be read.
            skipping = false;
            match frame.read().map_err(report::protocol) {
                // Both of these may read COPY data, so their text is copied out of the input first.
                Ok(Message::Query(sql)) => {
                    let sql = sql.to_owned();
                    wire.input = input;
                    wire.input.consume(used);
                    query(session, wire, &sql);
                    if let Some(ending) = wire.broken.take() {
                        return ended(wire, ending);
                    }
                    continue;
                }
                Ok(Message::Execute { portal, max_rows }) => {
                    let portal = portal.to_owned();
                    wire.input = input;
                    wire.input.consume(used);
                    if let Err(error) = execute(session, wire, &portal, max_rows) {
                        skipping = fail(session, wire, &error);
                    }
                    if let Some(ending) = wire.broken.take() {
                        return ended(wire, ending);
                    }
                    if session.is_terminated() {
                        return Ending::Terminated;
                    }
                    continue;
                }
                Ok(other) => extended(session, wire, other),
                Err(error) => Err(error),
            }
        };
        wire.input = input;
        wire.input.consume(used);
        match step {
            Ok(Next::Go) => {}
            Ok(Next::Ready) => ready(session, wire),
            Ok(Next::End) => return Ending::Client,
            Err(error) => {
                skipping = fail_message(session, wire, kind, &error);
            }
        }
    }
}

/// Tells the client why the session ends, if the client caused it.
fn ended(wire: &mut Wire<'_>, ending: Ending) -> Ending {
    if let Ending::Protocol(error) = &ending {
        fatal(wire, &report::protocol(error.clone()));
    }
    ending
}

/// Returns the error for a message that was dropped. The session goes on.
fn message_too_large() -> SqlError {
    SqlError::new("53200", "out of memory")
        .with_detail("There is no room for a message of the client.")
        .with_hint(niwaki_env::memory::FULL_HINT)
}

/// Action after a message.
enum Next {
    /// Read the next message.
    Go,
    /// Send `ReadyForQuery`, and write the output.
    Ready,
    /// End the session.
    End,
}

fn ready(session: &mut Session, wire: &mut Wire<'_>) {
    session.report_settings(wire);
    if wire.wake.is_none()
        && session.has_listened()
        && let Ok(wake) = Wake::new()
    {
        session.wake_by(wake.waker());
        wire.wake = Some(wake);
    }
    notify(session, wire);
    backend::ready_for_query(&mut wire.output.bytes, session.transaction_status());
    wire.flush();
}

/// Sends the notifications of other sessions to the client, unless a transaction is open.
fn notify(session: &mut Session, wire: &mut Wire<'_>) {
    if wire.wake.is_none() {
        return;
    }
    while let Some(sent) = session.take_notification() {
        let out = &mut wire.output.bytes;
        backend::notification(out, sent.sender, &sent.channel, &sent.payload);
        wire.flush_if_large();
    }
}

/// Decides whether to give memory back during the client's silence, which may last for `most`.
fn gives_back_within(most: Option<Duration>) -> bool {
    niwaki_env::memory::may_give_back() && most.is_none_or(|most| most > SILENT)
}

/// Waits for the client, and meanwhile passes on notifications from other sessions.
fn wait_idle(
    session: &mut Session,
    wire: &mut Wire<'_>,
    timeout: Option<Duration>,
) -> Result<(), Ending> {
    let mut left = timeout;
    while let Some(wake) = &wire.wake {
        let gives_back = gives_back_within(left);
        let most = if gives_back { Some(SILENT) } else { left };
        match wake.wait(wire.socket, most).map_err(|_| Ending::Socket)? {
            Woken::ByClient => return Ok(()),
            Woken::TimedOut if gives_back => {
                niwaki_env::memory::give_back();
                left = left.map(|left| left.saturating_sub(SILENT));
            }
            Woken::TimedOut => {
                fatal(wire, &session.idle_timeout_error());
                return Err(Ending::Client);
            }
            Woken::ByOther => {
                notify(session, wire);
                wire.flush();
                left = timeout;
            }
        }
        if session.is_terminated() || wire.output.failure().is_some() {
            // The wait for the next message handles this.
            return Ok(());
        }
    }
    Ok(())
}

/// Reports an error of an extended-protocol message. All messages up to Sync are skipped. The error
/// is written at once: a client that sent Flush waits for the error before it sends Sync, and that
/// Flush is skipped, too.
fn fail(session: &mut Session, wire: &mut Wire<'_>, error: &SqlError) -> bool {
    session.error();
    wire.report_unless_last(session, error);
    wire.flush();
    true
}

/// Reports an error of a message of this kind. Returns whether messages up to Sync are skipped. If
/// not, the client gets `ReadyForQuery`.
fn fail_message(session: &mut Session, wire: &mut Wire<'_>, kind: u8, error: &SqlError) -> bool {
    fail(session, wire, error);
    let skips = frontend::is_extended(kind);
    if !skips {
        ready(session, wire);
    }
    skips
}

/// Reports an error that ends the session.
pub(crate) fn fatal(wire: &mut Wire<'_>, error: &SqlError) {
    // A client that does not read its socket must not block the thread for ever.
    wire.output.set_session(None);
    report::append_fatal(&mut wire.output.bytes, error);
    wire.flush();
}

fn query(session: &mut Session, wire: &mut Wire<'_>, sql: &str) {
    if let Err(error) = session.simple_query(sql, wire) {
        session.error();
        wire.report_unless_last(session, &error);
    }
    if wire.broken.is_none() && !session.is_terminated() {
        ready(session, wire);
    }
}

fn execute(
    session: &mut Session,
    wire: &mut Wire<'_>,
    portal: &str,
    max_rows: i32,
) -> Result<(), SqlError> {
    wire.formats.clone_from(session.portal_formats(portal)?);
    wire.set_types(session.portal_columns(portal)?);
    // Zero and negative numbers mean "all rows".
    let max_rows = u64::try_from(max_rows).unwrap_or(0);
    match session.execute_portal(portal, max_rows, wire)? {
        ExecuteOutcome::Complete | ExecuteOutcome::Empty => {}
        ExecuteOutcome::Suspended => backend::portal_suspended(&mut wire.output.bytes),
    }
    Ok(())
}

fn extended(
    session: &mut Session,
    wire: &mut Wire<'_>,
    message: Message<'_>,
) -> Result<Next, SqlError> {
    match message {
        Message::Parse { name, query, types } => {
            let types: Vec<u32> = types.iter().collect();
            session.parse(name, query, &types)?;
            backend::parse_complete(&mut wire.output.bytes);
        }
        Message::Bind(mut bind) => {
            // Parameters of user-defined types are read by the present definitions in the catalog.
            session.refresh_types();
            let types = &session.text_settings().types;
            if !Arc::ptr_eq(&wire.text.types, types) {
                wire.text.types = Arc::clone(types);
            }
            bind_portal(session, &wire.text, &mut bind)?;
            backend::bind_complete(&mut wire.output.bytes);
        }
        Message::DescribeStatement(name) => {
            let statement = session.statement(name)?;
            backend::parameter_description(
                &mut wire.output.bytes,
                statement.parameters.iter().map(|oid| oid.0),
            );
            match &statement.columns {
                None => backend::no_data(&mut wire.output.bytes),
                Some(columns) => wire.describe(columns, &ResultFormats::default()),
            }
        }
        Message::DescribePortal(name) => {
            if session.portal_returns_rows(name)? {
                wire.describe(session.portal_columns(name)?, session.portal_formats(name)?);
            } else {
                backend::no_data(&mut wire.output.bytes);
            }
        }
        Message::CloseStatement(name) => {
            session.close_statement(name);
            backend::close_complete(&mut wire.output.bytes);
        }
        Message::ClosePortal(name) => {
            session.close_portal(name);
            backend::close_complete(&mut wire.output.bytes);
        }
        Message::Flush => wire.flush(),
        Message::Sync => {
            if let Err(error) = session.sync(wire) {
                wire.report_error(&error);
            }
            return Ok(Next::Ready);
        }
        Message::Terminate => return Ok(Next::End),
        // Remaining data of a failed COPY. PostgreSQL ignores it too.
        Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
        Message::FunctionCall => {
            session.refuse_in_failed_block()?;
            return Err(SqlError::new("0A000", "function call messages are not supported")
                .with_hint("call the function in a query: SELECT function(…)"));
        }
        Message::Query(_) | Message::Execute { .. } => {}
    }
    Ok(Next::Go)
}

fn bind_portal(
    session: &mut Session,
    settings: &TextSettings,
    bind: &mut Bind<'_>,
) -> Result<(), SqlError> {
    // Faults are checked in PostgreSQL's order, because a client sees the first of several.
    session.statement(bind.statement)?;
    let formats = bind.parameter_formats().map_err(report::protocol)?;
    let count = bind.count().map_err(report::protocol)?;
    if formats.len() > 1 && formats.len() != count {
        return Err(SqlError::new(
            "08P01",
            format!("bind message has {} parameter formats but {count} parameters", formats.len()),
        ));
    }
    // The meaning of 'now' in a parameter. The two clocks differ by the microseconds from 1970 to
    // 2000.
    let now = session.database().env().clock.now_unix_us().saturating_sub(UNIX_TO_2000_US);
    let context = InputContext { settings, now };
    let kind = ColumnType::new;
    let (portal, statement) = (bind.portal, bind.statement);
    let mut codes = formats.codes();
    let mut code = 0;
    let one_for_all = formats.len() == 1;
    if one_for_all {
        code = codes.next().unwrap_or(0);
    }
    let mut next = |number: usize, type_oid: TypeOid| -> Result<Datum, SqlError> {
        if !one_for_all {
            code = codes.next().unwrap_or(0);
        }
        let value = match (code, bind.value().map_err(report::protocol)?) {
            (0 | 1, None) => return Ok(Datum::Null),
            (0, Some(bytes)) => match std::str::from_utf8(bytes) {
                // A name of an object, which the session looks up.
                Ok(text) if type_oid.is_object_name() => Ok(Datum::text(text)),
                Ok(text) => niwaki_types::input(kind(type_oid), text, &context),
                Err(error) => {
                    return Err(report::protocol(frontend::invalid_utf8(
                        bytes,
                        error.valid_up_to(),
                    )));
                }
            },
            (1, Some(bytes)) => niwaki_types::read_binary(kind(type_oid), bytes, &settings.types),
            // PostgreSQL refuses such a format for NULL, too.
            (other, _) => Err(TypeError::new("22023", format!("unsupported format code: {other}"))),
        };
        value.map_err(|mut error| {
            // PostgreSQL names the parameter that has surplus bytes.
            if error.message == niwaki_types::BYTES_LEFT_OVER {
                error.message = format!("{} in bind parameter {}", error.message, number + 1);
            }
            let portal = match portal {
                "" => "unnamed portal".to_owned(),
                name => format!("portal \"{name}\""),
            };
            // Values are not shown, as with PostgreSQL's default
            // `log_parameter_max_length_on_error`.
            let hidden = if code == 0 { " = '...'" } else { "" };
            SqlError::from(error)
                .within_context(format!("{portal} parameter ${}{hidden}", number + 1))
        })
    };
    session.bind(portal, statement, &mut next, count)?;
    let result_formats = bind.result_formats().map_err(report::protocol)?;
    let columns = session.portal_columns(portal)?.len();
    let results = result_formats.len();
    // A statement without rows takes any formats.
    if results > 1 && results != columns && session.portal_returns_rows(portal)? {
        return Err(SqlError::new(
            "08P01",
            format!("bind message has {results} result formats but query has {columns} columns"),
        ));
    }
    session.set_portal_formats(portal, ResultFormats::of_codes(result_formats.codes()))
}

/// Microseconds from 1970-01-01 to 2000-01-01.
const UNIX_TO_2000_US: i64 = 946_684_800_000_000;

/// SQLSTATE of a session that was told to end.
const TERMINATED: &str = "57P01";

/// Silence of a client after which memory is given back: the silence may last longer.
const SILENT: Duration = Duration::from_secs(1);

/// Interval at which a wait for COPY data checks for interrupts.
const COPY_STEP: Duration = Duration::from_millis(50);
