//! Who reads what streams look ahead at, chosen when a data directory is opened.

use std::fmt;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::ReadRing;

/// What is asked for (`io_method`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMethod {
    /// Nobody: who needs a page reads it, and its neighbours with it.
    Sync,
    /// Threads of the database's own.
    #[default]
    Worker,
    /// The system.
    IoUring,
}

/// What it came to.
#[derive(Clone, Debug)]
pub struct MethodInUse {
    /// Who reads.
    pub method: IoMethod,
    /// Why the system does not, although it was asked for: then threads do; or does not any more: then nobody does.
    pub refused: Option<String>,
}

impl MethodInUse {
    /// Where the system refuses, threads do.
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
