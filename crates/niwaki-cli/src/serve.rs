//! `niwaki serve`: the server, until SIGTERM or SIGINT.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use niwaki_server::{Server, ServerOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::DataArguments;

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Authentication {
    /// Everybody who can reach the server is let in; hence loopback and a private socket only.
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
    /// How clients are authenticated.
    #[arg(long, value_enum, default_value = "trust")]
    auth: Authentication,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let Authentication::Trust = arguments.auth;
    // Before anything that takes time: a signal during recovery must not be lost.
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| format!("could not handle signals: {error}"))?;
    niwaki_env::vfs::raise_open_files_limit();
    let database = arguments.data.open()?;
    eprintln!("niwaki: reading ahead: {}", database.io_method());
    let options = ServerOptions {
        listen: arguments.listen,
        socket_dir: arguments.socket_dir.clone(),
        max_connections: database.max_connections(),
    };
    let server = Server::start(database, &options).map_err(|error| error.to_string())?;
    println!("niwaki ready on {}", server.address());
    if let Some(path) = server.socket_path() {
        println!("niwaki socket {}", path.display());
    }
    // A closed standard output is no reason to stop serving.
    let _ = std::io::stdout().flush();

    signals.forever().next();
    eprintln!("niwaki: stopping");
    let database = server.stop();
    database.close().map_err(|error| format!("could not stop cleanly: {error}"))?;
    eprintln!("niwaki: stopped");
    Ok(ExitCode::SUCCESS)
}
