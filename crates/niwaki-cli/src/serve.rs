//! `niwaki serve`: the server, until a signal ends it.
//!
//! SIGTERM and SIGINT end all sessions, roll back open transactions, and write a last checkpoint
//! (PostgreSQL's fast shutdown). SIGQUIT ends the process at once, and the next start recovers
//! (immediate shutdown). No signal waits for clients to leave (smart shutdown). SIGHUP ends
//! nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::memory;
use niwaki_env::sync::{Signal, thread};
use niwaki_server::{Server, ServerOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{DataArguments, log};

/// Method of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Authentication {
    /// Lets in every client that can reach the server: loopback and a private socket only.
    Trust,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// Address and port to listen on; loopback only until authentication exists.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432")]
    listen: SocketAddr,
    /// Folder (mode 0700) for a Unix-domain socket; none without it.
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Method of authentication of clients.
    #[arg(long, value_enum, default_value = "trust")]
    auth: Authentication,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let Authentication::Trust = arguments.auth;
    // This comes before all slow work, because a signal during recovery must not be lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])
        .map_err(|error| format!("could not handle signals: {error}"))?;
    niwaki_env::vfs::raise_open_files_limit();
    let database = arguments.data.open()?;
    log::line(&format!("reading ahead: {}", database.io_method()));
    memory::set_purge(niwaki_allocator::purge);
    if let Some(bytes) = database.memory_limit().map_err(|error| error.to_string())? {
        memory::set_limit(bytes);
        log::line(&format!("memory: {} MB at most", bytes >> 20));
    }
    let options = ServerOptions {
        listen: arguments.listen,
        socket_dir: arguments.socket_dir.clone(),
        max_connections: database.max_connections(),
        sockets_max: database.sockets_max(),
        authentication_timeout: database.authentication_timeout(),
    };
    let server = Server::start(database, &options).map_err(|error| error.to_string())?;
    log::announce(&format!("niwaki ready on {}", server.address()));
    if let Some(path) = server.socket_path() {
        log::announce(&format!("niwaki socket {}", path.display()));
    }
    let stop = Arc::<Signal>::default();
    let told = Arc::clone(&stop);
    thread::spawn_named("niwaki-signals", move || watch(&mut signals, &told))
        .map_err(|error| format!("could not start a thread: {error}"))?;

    // Ends: with SIGTERM or SIGINT.
    while !stop.wait(PURGE_EVERY) {
        memory::purge();
    }
    log::line("stopping");
    let database = server.stop();
    database.close().map_err(|error| format!("could not stop cleanly: {error}"))?;
    log::line("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Handles signals as they come, and notifies `stop` when the server must stop.
fn watch(signals: &mut Signals, stop: &Signal) {
    for signal in signals.forever() {
        match signal {
            SIGHUP => log::line(
                "SIGHUP: settings are read at the start only, so nothing was changed; restart the \
                 server for new ones",
            ),
            SIGQUIT => {
                log::line("SIGQUIT: ending at once; the next start recovers");
                std::process::exit(IMMEDIATE);
            }
            _ => stop.set_stop(true),
        }
    }
}

/// Interval of returning unused memory to the system. A signal ends the sleep between.
const PURGE_EVERY: Duration = Duration::from_secs(1);

/// Exit code after SIGQUIT, as PostgreSQL's.
const IMMEDIATE: i32 = 2;
