//! The method by which streams read ahead, chosen when a data directory is opened.

use std::fmt;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::ReadRing;

/// The configured method (`io_method`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMethod {
    /// No read-ahead: the thread that needs a page reads it, together with its neighbours.
    Sync,
    /// Threads of the database.
    #[default]
    Worker,
    /// The operating system.
    IoUring,
}

/// The method in use.
#[derive(Clone, Debug)]
pub struct MethodInUse {
    /// The method.
    pub method: IoMethod,
    /// The reason why the system does not read, although configured. If it refused at the start,
    /// threads read instead; if it failed later, there is no read-ahead.
    pub refused: Option<String>,
}

impl MethodInUse {
    /// Chooses the method: where the system refuses, threads read.
    pub(crate) fn choose(wanted: IoMethod, env: &Env) -> (Self, Option<Arc<dyn ReadRing>>) {
        if wanted != IoMethod::IoUring {
            return (Self { method: wanted, refused: None }, None);
        }
        match env.vfs.read_ring() {
            Ok(ring) => (Self { method: wanted, refused: None }, Some(ring)),
            Err(error) => {
                (Self { method: IoMethod::Worker, refused: Some(error.to_string()) }, None)
            }
        }
    }
}

impl fmt::Display for IoMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::Worker => "worker",
            Self::IoUring => "io_uring",
        })
    }
}
