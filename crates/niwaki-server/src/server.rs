//! A server: listeners, connections and sessions from their beginning to their end.

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

/// Stack of a session's thread, in bytes. Statements that need more get more (`niwaki_env::stack`).
const SESSION_STACK_BYTES: usize = 8 << 20;
/// Longest wait of a listener that could not accept. The end of a session also ends the wait.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Most surplus connections at once that get an orderly refusal: after they have asked for a
/// session. Further ones are refused at once. The number is small, because these descriptors come
/// on top of `sockets_max`.
const TURNED_AWAY_MAX: usize = 8;
/// Longest wait of a clean stop for sessions to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Addresses to listen on, and limits of connections.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// TCP address. Only loopback addresses are accepted. Port 0 means a free port.
    pub listen: SocketAddr,
    /// Folder for the Unix-domain socket `.s.PGSQL.PORT`, mode 0700. `None`: no such socket.
    pub socket_dir: Option<PathBuf>,
    /// Most sessions at once. A further one is refused with 53300.
    pub max_connections: usize,
    /// Most connections at once, including those that have not logged in, which may be half of
    /// them. A further one is refused with 53300. The database's own descriptors do not count.
    pub sockets_max: usize,
    /// Longest time from a connection's beginning to its login.
    pub authentication_timeout: Duration,
}

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can be reached from other machines, and there is no authentication.
    #[error(
        "refusing to listen on {0}: Niwaki has no authentication yet, so it accepts loopback addresses \
         (127.0.0.1, ::1) only; use an SSH tunnel to reach it from elsewhere"
    )]
    NotLoopback(SocketAddr),
    /// The socket folder is open to other users.
    #[error("socket directory \"{}\" {problem}: it must belong to this user with mode 0700", .path.display())]
    SocketDirectory {
        /// The folder.
        path: PathBuf,
        /// Description of the fault.
        problem: String,
    },
    /// The system refused the listener.
    #[error("could not listen on {what}: {source}")]
    Listen {
        /// Address or path.
        what: String,
        /// Error of the system.
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

/// Connected clients.
#[derive(Default)]
struct Clients {
    sessions: HashMap<i32, Terminator>,
    /// Connections, sessions included.
    sockets: usize,
    /// Connections that have not logged in.
    strangers: usize,
    /// Surplus connections, which count in no other number.
    turned_away: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("sessions", &self.clients.lock().sessions.len()).finish()
    }
}

impl Server {
    /// Starts listening. When this returns, clients can connect.
    ///
    /// # Errors
    /// [`StartError`]: an address that is not loopback, a socket folder open to other users, or a
    /// refusal of the system.
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

    /// Returns the TCP address, with the port that the system assigned.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the path of the Unix-domain socket, if any.
    pub fn socket_path(&self) -> Option<&Path> {
        self.socket_path.as_deref()
    }

    /// Accepts no more connections, ends every session with 57P01, and waits for the sessions.
    /// Returns the database, which can then be closed. A client that does not read delays no
    /// session's end.
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

/// Binds `dir/.s.PGSQL.port`, after it has checked or created the folder.
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
        // TCP was bound first, so this server owns the port, and the server that left this file is
        // gone.
        fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    Ok((listener, path))
}

/// Accepts connections until the server stops. Each connection has its own thread.
fn accept(shared: &Arc<Shared>, mut next: impl FnMut() -> io::Result<Socket>) {
    loop {
        let socket = next();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else {
            // Either the client has left already, or no file descriptor is free until a session
            // ends. A bounded wait for that end keeps the loop from spinning.
            let mut clients = shared.clients.lock();
            shared.ended.wait_for(&mut clients, ACCEPT_PAUSE);
            continue;
        };
        let Some(admission) = Admission::ask(shared) else {
            refuse(&socket);
            continue;
        };
        // If the system has no thread, the client sees its connection closed.
        let _ = thread::spawn_with_stack("session", SESSION_STACK_BYTES, move || {
            connection(&admission, &Arc::new(socket));
        });
    }
}

/// Tells a connection that there are too many, without waiting for its request, and closes it.
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

/// The newest protocol version that the server speaks: 3.0.
const PROTOCOL_VERSION: u32 = 3 << 16;

/// SQLSTATEs of refusals before a client has logged in.
const NO_SUCH_USER: &str = "28000";
const TOO_MANY_CLIENTS: &str = "53300";

/// A place among the connections, which dropping the value frees. At first the client is not logged
/// in.
struct Admission {
    shared: Arc<Shared>,
    is_stranger: AtomicBool,
    /// True when the client may log in: the limits had room when it connected.
    may_log_in: bool,
}

impl Admission {
    /// Takes a place. At the limit of connections, or of those that have not logged in, the place
    /// is one for an orderly refusal. Returns `None` when these are taken, too.
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

    /// Counts the connection as logged in.
    fn is_known(&self, clients: &mut Clients) {
        // Relaxed: only the connection's own thread uses the flag.
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

/// Serves one connection from its first byte to its last.
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
        // Before this packet, a client would take an error for the answer to its encryption
        // request.
        Ok(Opening::Session(_)) if !admission.may_log_in => {
            session::fatal(&mut wire, &too_many_clients());
        }
        Ok(Opening::Session(request)) => {
            run(admission, socket, &request, &mut wire);
        }
        // No answer in either case. The requester may learn only that its packet arrived.
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

/// Opens the session, serves it, and tells the client why the session ends.
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
        // As in PostgreSQL, the user is authenticated before the database and the settings are
        // checked.
        backend::authentication_ok(&mut wire.output.bytes);
    }
    let ended = session.and_then(|session| {
        let registration = register(admission, socket, &session)?;
        Ok((registration, served(session, wire)))
    });
    match ended {
        Err(error) => session::fatal(wire, &error),
        // The session stays registered until its client was told.
        Ok((_registration, Err(error))) => session::fatal(wire, &error),
        Ok((_registration, Ok(()))) => {}
    }
}

/// Registers a session, so that a stop ends it. The end of a session wakes its thread where that
/// waits for the client.
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

/// Sends the client the session's data, and serves the session to its end.
fn served(mut session: Session, wire: &mut Wire<'_>) -> Result<(), SqlError> {
    let process_id = session.id();
    // If this fails, the socket is gone, and the first read reports it.
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
    // The transaction must be rolled back before the session counts as ended.
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

/// A session's entry in the list. It is removed however the session ends.
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
