//! A tiny store with known bugs, which shows that the suites find the bugs they are for.
//!
//! The store keeps all rows in memory and one record per commit in a log file: length, checksum,
//! the writes. A checkpoint writes the rows to a new file, renames it over the old one and starts a
//! new log. Each [`Bug`] leaves out one step.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{OpenMode, VfsFile};

use crate::model::{Model, Reply, Rows, Step};
use crate::tested_database::TestedDatabase;

/// A known bug of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// A commit is acknowledged before the log is synced.
    AcknowledgeBeforeSync,
    /// Log records carry no checksum worth the name.
    NoChecksum,
    /// The folder is not synced after a checkpoint's rename.
    NoFolderSync,
    /// The new rows are renamed into place before they are synced.
    RenameBeforeSync,
    /// A transaction's writes are logged one by one.
    RecordPerWrite,
    /// Recovery cuts the log before it has saved the rows that it read.
    CutBeforeSave,
}

/// The store; the constant chooses the bug (its number in [`Bug`]).
#[derive(Debug)]
pub struct BuggyStore<const BUG: u8> {
    env: Env,
    log: Arc<dyn VfsFile>,
    log_end: u64,
    generation: u64,
    durable: Rows,
    /// Sessions are the model's business; the test is about the disk.
    sessions: Model,
}

fn has<const BUG: u8>(bug: Bug) -> bool {
    BUG == bug as u8
}

impl<const BUG: u8> BuggyStore<BUG> {
    fn start(env: &Env) -> io::Result<Self> {
        let mut rows = Rows::new();
        let mut generation = 0;
        if env.vfs.exists("rows")? {
            let bytes = read(&*env.vfs.open("rows", OpenMode::Existing)?)?;
            let body = bytes.get(16..).unwrap_or_default();
            if bytes.len() < 16 || number(&bytes[8..]) != sum(body) {
                return Err(io::Error::other("rows are damaged"));
            }
            generation = number(&bytes);
            rows =
                body.chunks_exact(16).map(|c| (number(c) as i64, number(&c[8..]) as i64)).collect();
        }
        let path = format!("log{generation}");
        let existed = env.vfs.exists(&path)?;
        let log = env.vfs.open(&path, OpenMode::CreateIfAbsent)?;
        if !existed {
            env.vfs.sync_dir("")?;
        }
        let log_end = replay::<BUG>(&read(&*log)?, &mut rows);
        let sessions = Model::with_rows(&rows);
        let mut store =
            Self { env: env.clone(), log, log_end, generation, durable: rows, sessions };
        if has::<BUG>(Bug::CutBeforeSave) && store.log_end > 0 {
            store.log.set_len(0)?;
            store.log.sync_data()?;
        }
        if store.log_end > 0 {
            store.checkpoint()?;
        }
        Ok(store)
    }

    fn append(&mut self, writes: &[(i64, Option<i64>)]) -> io::Result<()> {
        let mut body = Vec::new();
        // The writes are repeated, so that a record spans sectors and can be torn.
        for (key, value) in writes.iter().cycle().take(writes.len() * 24) {
            body.extend(key.to_le_bytes());
            body.extend(value.unwrap_or(i64::MIN).to_le_bytes());
        }
        let mut record = (body.len() as u64).to_le_bytes().to_vec();
        record.extend(sum(&body).to_le_bytes());
        record.extend(&body);
        self.log.write_at(&record, self.log_end)?;
        self.log_end += record.len() as u64;
        Ok(())
    }

    fn commit(&mut self, rows: Rows) -> io::Result<()> {
        let changed = rows.iter().filter(|(key, value)| self.durable.get(key) != Some(value));
        let mut writes: Vec<_> = changed.map(|(key, value)| (*key, Some(*value))).collect();
        let gone = self.durable.keys().filter(|key| !rows.contains_key(key));
        writes.extend(gone.map(|key| (*key, None)));
        if has::<BUG>(Bug::RecordPerWrite) {
            for write in &writes {
                self.append(&[*write])?;
            }
        } else {
            self.append(&writes)?;
        }
        if !has::<BUG>(Bug::AcknowledgeBeforeSync) {
            self.log.sync_data()?;
        }
        self.durable = rows;
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        let mut body = Vec::new();
        for (key, value) in &self.durable {
            body.extend(key.to_le_bytes());
            body.extend(value.to_le_bytes());
        }
        let mut bytes = (self.generation + 1).to_le_bytes().to_vec();
        bytes.extend(sum(&body).to_le_bytes());
        bytes.extend(&body);
        let next = self.env.vfs.open("rows.new", OpenMode::CreateIfAbsent)?;
        next.set_len(bytes.len() as u64)?;
        next.write_at(&bytes, 0)?;
        if !has::<BUG>(Bug::RenameBeforeSync) {
            next.sync_data()?;
        }
        let path = format!("log{}", self.generation + 1);
        self.log = self.env.vfs.open(&path, OpenMode::CreateIfAbsent)?;
        self.log.set_len(0)?;
        self.log.sync_data()?;
        self.log_end = 0;
        self.env.vfs.rename("rows.new", "rows")?;
        if !has::<BUG>(Bug::NoFolderSync) {
            self.env.vfs.sync_dir("")?;
        }
        self.env.vfs.remove(&format!("log{}", self.generation))?;
        self.generation += 1;
        Ok(())
    }
}

fn read(file: &dyn VfsFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Applies all whole records; returns where the last one ends.
fn replay<const BUG: u8>(log: &[u8], rows: &mut Rows) -> u64 {
    let mut at = 0;
    while log.len() - at >= 16 {
        let len = usize::try_from(number(&log[at..])).unwrap_or(usize::MAX);
        let Some(body) = log[at + 16..].get(..len).filter(|body| !body.is_empty()) else { break };
        if !has::<BUG>(Bug::NoChecksum) && number(&log[at + 8..]) != sum(body) {
            break;
        }
        for write in body.chunks_exact(16) {
            match number(&write[8..]) as i64 {
                i64::MIN => rows.remove(&(number(write) as i64)),
                value => rows.insert(number(write) as i64, value),
            };
        }
        at += 16 + len;
    }
    at as u64
}

fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}

fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

impl<const BUG: u8> TestedDatabase for BuggyStore<BUG> {
    fn open(env: Env, _full_page_writes: bool) -> Result<Self, String> {
        Self::start(&env).map_err(|error| error.to_string())
    }

    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String> {
        let (reply, commit) = self.sessions.apply(session, step);
        let done = match (commit, step) {
            (Some(_), _) => self.commit(self.sessions.visible(self.sessions.commits())),
            (None, Step::Checkpoint) => self.checkpoint(),
            _ => Ok(()),
        };
        done.map_err(|error| error.to_string())?;
        Ok(reply)
    }

    fn rows(&mut self) -> Result<Rows, String> {
        Ok(self.durable.clone())
    }

    fn check(&mut self) -> Result<(), String> {
        let committed: BTreeMap<_, _> = self.sessions.visible(self.sessions.commits());
        if committed == self.durable { Ok(()) } else { Err("memory and log disagree".to_owned()) }
    }
}
