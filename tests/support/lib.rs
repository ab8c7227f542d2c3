//! Servers of the tests: starts the released binary on a directory of its own, and drives it.
//!
//! The binary is `$NIWAKI_BINARY`, or `niwaki` beside the test's own target folder.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Longest time of a start, recovery included, before a test gives up.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A folder that is removed with its owner.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes a new, empty folder whose name begins with `name`.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("niwaki-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A failed test leaves its data for inspection.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Returns the binary under test.
///
/// # Panics
/// When there is none.
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("NIWAKI_BINARY") {
        return path.into();
    }
    let target = env::current_exe()
        .ok()
        .and_then(|exe| exe.ancestors().nth(3).map(Path::to_owned))
        .expect("a target folder");
    for profile in ["release", "debug"] {
        let path = target.join(profile).join("niwaki");
        if path.exists() {
            return path;
        }
    }
    panic!("no niwaki binary below {}: cargo build --release -p niwaki-cli", target.display());
}

/// A server process; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    data: PathBuf,
    arguments: Vec<String>,
    /// Lines of standard output, as they come.
    lines: mpsc::Receiver<String>,
    errors: Option<mpsc::Receiver<String>>,
}

impl Server {
    /// Starts on `data` with further arguments, and waits until the server accepts connections.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(data: &Path, arguments: &[&str]) -> Self {
        match Self::try_start(data, arguments) {
            Ok(server) => server,
            Err(message) => panic!("the server did not start: {message}"),
        }
    }

    /// Works like [`Server::start`].
    ///
    /// # Errors
    /// The output of the server when it ended instead of accepting.
    ///
    /// # Panics
    /// When neither happens in time.
    pub fn try_start(data: &Path, arguments: &[&str]) -> Result<Self, String> {
        Self::try_start_under(&[], data, arguments)
    }

    /// Works like [`Server::try_start`], under another program that runs the binary: its name and
    /// arguments. The server must stay the child that the program is started as.
    ///
    /// # Errors
    /// The output of the server when it ended instead of accepting.
    ///
    /// # Panics
    /// When neither happens in time.
    pub fn try_start_under(
        wrapper: &[&str],
        data: &Path,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let mut server = Self::launch_under(wrapper, data, arguments);
        loop {
            match server.lines.recv_timeout(START_TIMEOUT) {
                Ok(line) => {
                    if let Some(port) = port_of(&line) {
                        server.port = port;
                        return Ok(server);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("the server neither starts nor ends")
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let _ = server.child.wait();
                    return Err(server.stderr());
                }
            }
        }
    }

    /// Starts without waiting: the server may still recover.
    ///
    /// # Panics
    /// When the binary cannot be run.
    pub fn launch(data: &Path, arguments: &[&str]) -> Self {
        Self::launch_under(&[], data, arguments)
    }

    fn launch_under(wrapper: &[&str], data: &Path, arguments: &[&str]) -> Self {
        let mut command = match wrapper {
            [] => Command::new(binary()),
            [program, options @ ..] => {
                let mut command = Command::new(program);
                command.args(options).arg(binary());
                command
            }
        };
        let mut child = command
            .arg("serve")
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the niwaki binary");
        let stdout = child.stdout.take().expect("a pipe");
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let mut stderr = child.stderr.take().expect("a pipe");
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            let _ = send.send(text);
        });
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let data = data.to_owned();
        Self { child, port: 0, data, arguments, lines, errors: Some(receive) }
    }

    /// Decides whether the server has reported that it accepts connections.
    pub fn is_ready(&mut self) -> bool {
        while self.port == 0
            && let Ok(line) = self.lines.try_recv()
        {
            self.port = port_of(&line).unwrap_or(0);
        }
        self.port != 0
    }

    /// Returns the bytes it has read from and written to files and pipes so far; 0 once it has
    /// ended.
    pub fn io_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/io", self.pid())).unwrap_or_default();
        let moved = |line: &str| {
            let (name, bytes) = line.split_once(": ")?;
            if matches!(name, "rchar" | "wchar") { bytes.parse::<u64>().ok() } else { None }
        };
        text.lines().filter_map(moved).sum()
    }

    /// Returns the TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a raw connection.
    ///
    /// # Panics
    /// When it is refused.
    pub fn socket(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream
    }

    /// Connects a client.
    ///
    /// # Panics
    /// When the connection is refused.
    pub fn client(&self) -> postgres::Client {
        self.try_client().expect("a connection")
    }

    /// Connects a client.
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn try_client(&self) -> Result<postgres::Client, postgres::Error> {
        postgres::Config::new()
            .host("127.0.0.1")
            .port(self.port)
            .user("postgres")
            .dbname("postgres")
            .connect_timeout(Duration::from_secs(10))
            .connect(postgres::NoTls)
    }

    /// Ends the process as a power failure would.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn kill(&mut self) {
        self.child.kill().expect("to kill the server");
        let _ = self.child.wait();
        // Reads the earlier output, so that `is_ready` says whether the server had come so far.
        while let Ok(line) = self.lines.recv() {
            self.port = port_of(&line).unwrap_or(self.port);
        }
    }

    /// Ends the server with SIGTERM and waits; true when it stopped cleanly.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn stop(&mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        self.child.wait().expect("an exit status").success()
    }

    /// Waits for the end of the process: `"exit N"` or `"signal N"`.
    ///
    /// # Panics
    /// When there is no status to be had.
    pub fn wait(&mut self) -> String {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().expect("an exit status");
        match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("exit {}", status.code().unwrap_or(-1)),
        }
    }

    /// Starts again with the same arguments.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        *self = Self::start(&self.data.clone(), &arguments);
    }

    /// Returns everything the server wrote to standard error; waits for its end.
    pub fn stderr(&mut self) -> String {
        self.errors.take().and_then(|errors| errors.recv().ok()).unwrap_or_default()
    }

    /// Runs a PostgreSQL client program against the server, with `-h`, `-p`, `-U` set by
    /// environment.
    ///
    /// # Panics
    /// When the program is not installed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program, arguments)
            .output()
            .unwrap_or_else(|error| panic!("{program} (PostgreSQL 15 clients) is needed: {error}"))
    }

    /// Returns a PostgreSQL client program, ready to be started, with the environment of
    /// [`Server::run`].
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .env("PSQLRC", "/dev/null");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the port in the line that says that the server accepts connections.
fn port_of(line: &str) -> Option<u16> {
    let address = line.strip_prefix("niwaki ready on ")?;
    Some(address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port"))
}

/// Runs `niwaki check` and panics with its output unless every invariant holds.
///
/// # Panics
/// When an invariant does not hold.
pub fn check(data: &Path) {
    let output = Command::new(binary())
        .args(["check", "--data-dir"])
        .arg(data)
        .output()
        .expect("the niwaki binary");
    assert!(output.status.success(), "niwaki check: {}", text(&output));
}

/// Returns standard output and standard error of a program, for a message.
pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A seeded generator, so that a failing run can be repeated.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator for this seed, however small it is.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Makes another generator, for another thread.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.below(u64::MAX))
    }

    /// Returns the next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
