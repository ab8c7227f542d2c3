//! Listeners and sessions: who may connect, who is connected, and how it all ends.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use niwaki::{Database, Session, SqlError, Terminator};
use niwaki_env::hash::HashMap;
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_env::sync::{Condvar, Mutex, thread};

use crate::connection::{Input, Output, Socket, WRITE_STEP};
use crate::report;
use crate::session::{self, Ending, Wire};
use crate::startup::{self, Opening, Request};
use crate::wire::backend;

/// Stack of a session's thread, in bytes. Statements that need more get it (`niwaki_env::stack`).
const SESSION_STACK_BYTES: usize = 8 << 20;
/// How long a listener that could not accept waits for a session to end before it tries again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Connections at once that there is no place for, and that are told so when they have asked for a
/// session. More are told at once. Few, since their descriptors are beside `sockets_max`.
const TURNED_AWAY_MAX: usize = 8;
/// How long a clean stop waits for sessions to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// What to listen on, and for how many.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// TCP address; only loopback addresses are accepted. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Folder for the Unix-domain socket `.s.PGSQL.PORT`, mode 0700; none: no such socket.
    pub socket_dir: Option<PathBuf>,
    /// Sessions at once; one more is refused with 53300.
    pub max_connections: usize,
    /// Connections at once, those that have not logged in included, which may be half of them; one
    /// more is refused with 53300. The descriptors that the database needs are not among them.
    pub sockets_max: usize,
    /// How long a connection may take to log in, from its first moment.
    pub authentication_timeout: Duration,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address that others could reach, while there is no authentication.
    #[error(
        "refusing to listen on {0}: Niwaki has no authentication yet, so it accepts loopback addresses \
         (127.0.0.1, ::1) only; use an SSH tunnel to reach it from elsewhere"
    )]
    NotLoopback(SocketAddr),
    /// The socket folder is open to others.
    #[error("socket directory \"{}\" {problem}: it must belong to this user with mode 0700", .path.display())]
    SocketDirectory {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("could not listen on {what}: {source}")]
    Listen {
        /// Address or path.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// A running server. Dropping it does not stop it: call [`Server::stop`].
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    socket_path: Option<PathBuf>,
    accepting: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    database: Database,
    max_connections: usize,
    sockets_max: usize,
    authentication_timeout: Duration,
    stopping: AtomicBool,
    clients: Mutex<Clients>,
    /// Signalled when a session ends.
    ended: Condvar,
}

/// Who is connected.
#[derive(Default)]
struct Clients {
    sessions: HashMap<i32, Terminator>,
    /// Connections, sessions included.
    sockets: usize,
    /// Connections that have not logged in.
    strangers: usize,
    /// Connections that there is no place for; they are not among the others.
    turned_away: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("sessions", &self.clients.lock().sessions.len()).finish()
    }
}

impl Server {
    /// Listens; from the moment this returns, clients can connect.
    ///
    /// # Errors
    /// [`StartError`]: an address that is not loopback, a socket folder open to others, or the
    /// system's refusal.
    pub fn start(database: Database, options: &ServerOptions) -> Result<Self, StartError> {
        if !options.listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(options.listen));
        }
        let failed = |what: String| move |source| StartError::Listen { what, source };
        let tcp = TcpListener::bind(options.listen).map_err(failed(options.listen.to_string()))?;
        let address = tcp.local_addr().map_err(failed(options.listen.to_string()))?;
        let unix = match &options.socket_dir {
            None => None,
            Some(dir) => Some(bind_unix(dir, address.port())?),
        };
        database.listens_on(address.port());
        let shared = Arc::new(Shared {
            database,
            max_connections: options.max_connections,
            sockets_max: options.sockets_max,
            authentication_timeout: options.authentication_timeout,
            stopping: AtomicBool::new(false),
            clients: Mutex::default(),
            ended: Condvar::new(),
        });
        let mut accepting = Vec::new();
        let for_tcp = Arc::clone(&shared);
        accepting.push(thread::spawn(move || {
            accept(&for_tcp, || {
                let (stream, _) = tcp.accept()?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            });
        }));
        let mut socket_path = None;
        if let Some((listener, path)) = unix {
            socket_path = Some(path);
            let for_unix = Arc::clone(&shared);
            accepting.push(thread::spawn(move || {
                accept(&for_unix, || Ok(Socket::Unix(listener.accept()?.0)));
            }));
        }
        Ok(Self { shared, address, socket_path, accepting })
    }

    /// The TCP address, with the port that was really taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The Unix-domain socket, if any.
    pub fn socket_path(&self) -> Option<&Path> {
        self.socket_path.as_deref()
    }

    /// Accepts nobody any more, tells every session 57P01, waits for them, and gives the database
    /// back to be closed. A client that does not read keeps no session from ending.
    pub fn stop(self) -> Database {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // A connection of our own wakes each accepting thread.
        let _ = std::net::TcpStream::connect(self.address);
        if let Some(path) = &self.socket_path {
            let _ = std::os::unix::net::UnixStream::connect(path);
        }
        for thread in self.accepting {
            let _ = thread.join();
        }
        let mut clients = self.shared.clients.lock();
        clients.sessions.values().for_each(Terminator::terminate);
        while !clients.sessions.is_empty() {
            if self.shared.ended.wait_for(&mut clients, STOP_TIMEOUT).timed_out() {
                break;
            }
        }
        drop(clients);
        if let Some(path) = &self.socket_path {
            let _ = fs::remove_file(path);
        }
        self.shared.database.clone()
    }
}

/// Binds `dir/.s.PGSQL.port`, with the folder checked or created.
fn bind_unix(dir: &Path, port: u16) -> Result<(UnixListener, PathBuf), StartError> {
    let wrong = |problem: String| StartError::SocketDirectory { path: dir.to_owned(), problem };
    if !dir.exists() {
        fs::create_dir_all(dir).map_err(|error| wrong(format!("cannot be created ({error})")))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
            .map_err(|error| wrong(format!("cannot be protected ({error})")))?;
    }
    let metadata = fs::metadata(dir).map_err(|error| wrong(format!("cannot be read ({error})")))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(wrong(format!("has mode {:04o}", metadata.mode() & 0o7777)));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong(format!("belongs to user {}", metadata.uid())));
    }
    let path = dir.join(format!(".s.PGSQL.{port}"));
    let failed = |source| StartError::Listen { what: path.display().to_string(), source };
    if path.exists() {
        // The port is ours (TCP is bound first), so whoever left this file is gone.
        fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    Ok((listener, path))
}

/// Accepts connections until the server stops; each gets its thread.
fn accept(shared: &Arc<Shared>, mut next: impl FnMut() -> io::Result<Socket>) {
    loop {
        let socket = next();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match socket {
            Ok(socket) => {
                let Some(admission) = Admission::ask(shared) else {
                    refuse(&socket);
                    continue;
                };
                // No thread to be had: the client sees its connection closed.
                let _ = thread::spawn_with_stack("session", SESSION_STACK_BYTES, move || {
                    connection(&admission, &Arc::new(socket));
                });
            }
            // The client left already; or no file descriptor is free, until a session ends: waiting
            // for that, with a bound, keeps a core from spinning.
            Err(_) => {
                let mut clients = shared.clients.lock();
                shared.ended.wait_for(&mut clients, ACCEPT_PAUSE);
            }
        }
    }
}

/// Tells a connection that there are too many, whatever it is about to ask, and closes it.
fn refuse(socket: &Socket) {
    let mut output = Output::new();
    report::append_fatal(&mut output.bytes, &too_many_clients());
    // A new socket has room for this, so the listener does not wait.
    output.flush(socket);
}

fn too_many_clients() -> SqlError {
    SqlError::new(TOO_MANY_CLIENTS, "sorry, too many clients already")
        .with_hint("raise max_connections, or use a connection pool")
}

/// The newest protocol that is spoken: 3.0.
const PROTOCOL_VERSION: u32 = 3 << 16;

/// SQLSTATEs of what is refused before a client is let in.
const NO_SUCH_USER: &str = "28000";
const TOO_MANY_CLIENTS: &str = "53300";

/// A place among the connections, at first as a stranger's; it is given back with this.
struct Admission {
    shared: Arc<Shared>,
    is_stranger: AtomicBool,
    /// It may log in: there were not too many others when it came.
    may_log_in: bool,
}

impl Admission {
    /// Takes a place: where there are too many connections, or too many that have not logged in,
    /// one of those that are turned away. `None` when there is none of these either.
    fn ask(shared: &Arc<Shared>) -> Option<Self> {
        let mut clients = shared.clients.lock();
        let strangers_max = (shared.sockets_max / 2).max(1);
        let may_log_in = clients.sockets < shared.sockets_max && clients.strangers < strangers_max;
        if may_log_in {
            clients.sockets += 1;
            clients.strangers += 1;
        } else if clients.turned_away < TURNED_AWAY_MAX {
            clients.turned_away += 1;
        } else {
            return None;
        }
        let is_stranger = AtomicBool::new(may_log_in);
        Some(Self { shared: Arc::clone(shared), is_stranger, may_log_in })
    }

    /// It has logged in.
    fn is_known(&self, clients: &mut Clients) {
        // Relaxed: only the connection's own thread asks.
        if self.is_stranger.swap(false, Ordering::Relaxed) {
            clients.strangers -= 1;
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut clients = self.shared.clients.lock();
        if self.may_log_in {
            clients.sockets -= 1;
            self.is_known(&mut clients);
        } else {
            clients.turned_away -= 1;
        }
    }
}

/// One connection from its first byte to its last.
fn connection(admission: &Admission, socket: &Arc<Socket>) {
    let shared = &admission.shared;
    let mut input = Input::new();
    let mut output = Output::new();
    if socket.set_write_timeout(Some(WRITE_STEP)).is_err() {
        return;
    }
    let clock = &shared.database.env().clock;
    let end = clock.monotonic().saturating_add(shared.authentication_timeout);
    let left = || end.saturating_sub(clock.monotonic());
    let opening = startup::open(socket, &mut input, &mut output, &left);
    let mut wire = Wire::new(socket, input, output);
    match opening {
        // Before this packet a client takes an error for an answer to its request for encryption.
        Ok(Opening::Session(_)) if !admission.may_log_in => {
            session::fatal(&mut wire, &too_many_clients());
        }
        Ok(Opening::Session(request)) => {
            run(admission, socket, &request, &mut wire);
        }
        // No answer either way: the requester may only learn that something came.
        Ok(Opening::Cancel { process_id, secret }) => {
            if let (Ok(session), Ok(secret)) =
                (i32::try_from(process_id), <[u8; 4]>::try_from(secret.as_slice()))
            {
                shared.database.cancel(session, u32::from_be_bytes(secret));
            }
        }
        Ok(Opening::Gone) => {}
        Err(error) => session::fatal(&mut wire, &error),
    }
}

/// Opens the session, serves it, and tells the client why it ends.
fn run(admission: &Admission, socket: &Arc<Socket>, request: &Request, wire: &mut Wire<'_>) {
    let shared = &admission.shared;
    if request.minor > 0 || !request.unknown.is_empty() {
        let unknown: Vec<&str> = request.unknown.iter().map(String::as_str).collect();
        backend::negotiate_protocol_version(&mut wire.output.bytes, PROTOCOL_VERSION, &unknown);
    }
    let session = shared.database.session_as(&request.user, &request.database, &request.settings);
    if let Err(error) = &session
        && !matches!(error.sqlstate, NO_SUCH_USER | TOO_MANY_CLIENTS)
    {
        // As PostgreSQL: who it is, is settled before the database and the settings are.
        backend::authentication_ok(&mut wire.output.bytes);
    }
    let ended = session.and_then(|session| {
        let registration = register(admission, socket, &session)?;
        Ok((registration, served(session, wire)))
    });
    match ended {
        Err(error) => session::fatal(wire, &error),
        // The session counts as one until its client was told.
        Ok((_registration, Err(error))) => session::fatal(wire, &error),
        Ok((_registration, Ok(()))) => {}
    }
}

/// Enters a session among those that a stop ends, and has its end wake it where it waits for its
/// client.
fn register<'a>(
    admission: &'a Admission,
    socket: &Arc<Socket>,
    session: &Session,
) -> Result<Registration<'a>, SqlError> {
    let shared = &*admission.shared;
    let process_id = session.id();
    session.set_client(socket.client());
    let woken = Arc::downgrade(socket);
    session.when_terminated(move || {
        if let Some(socket) = woken.upgrade() {
            socket.end_reading();
        }
    });
    let mut clients = shared.clients.lock();
    if clients.sessions.len() >= shared.max_connections {
        return Err(too_many_clients());
    }
    if shared.stopping.load(Ordering::SeqCst) {
        return Err(SqlError::new("57P03", "the database system is shutting down"));
    }
    clients.sessions.insert(process_id, session.terminator());
    admission.is_known(&mut clients);
    Ok(Registration { shared, process_id })
}

/// Tells the client about its session, and serves it to its end.
fn served(mut session: Session, wire: &mut Wire<'_>) -> Result<(), SqlError> {
    let process_id = session.id();
    // If it cannot be set the socket is gone, and the first read says so.
    let _ = wire.socket.set_read_timeout(None);
    wire.output.set_session(Some(session.terminator()));

    let out = &mut wire.output.bytes;
    backend::authentication_ok(out);
    for (name, value) in session.reported_settings() {
        backend::parameter_status(out, name, &value);
    }
    backend::backend_key_data(out, process_id, session.secret());
    wire.set_text_settings(session.text_settings());

    // A panic outside a critical section ends this session only.
    let served = panic::catch_unwind(AssertUnwindSafe(|| session::serve(&mut session, wire)));
    // The transaction is rolled back before the session counts as ended.
    drop(session);
    match served {
        Ok(Ending::Terminated) => {
            return Err(SqlError::new(
                "57P01",
                "terminating connection due to administrator command",
            ));
        }
        Ok(_) => {}
        Err(_) => {
            return Err(SqlError::new("XX000", "internal error: the session ends here")
                .with_hint("the server's log holds the details; please report it"));
        }
    }
    Ok(())
}

/// Takes a session off the list when it ends, however it ends.
struct Registration<'s> {
    shared: &'s Shared,
    process_id: i32,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.shared.clients.lock().sessions.remove(&self.process_id);
        self.shared.ended.notify_all();
    }
}
