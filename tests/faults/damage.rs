//! Files of a directory that are changed, cut or removed.
//!
//! A directory is filled, and its questions answered. Then one file is damaged, and everything is
//! asked again. An answer is the same as before, or an error that reports damage. No other file is
//! removed, so that putting the file back mends the directory.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Random, Server, TempDir, binary, text};

use crate::workload::{self, Answer, Known, SETTINGS};
use crate::{each, random};

const PAGE: u64 = 8192;

/// A damage done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Remove,
    Empty,
    /// The file is cut to this many bytes.
    Cut(u64),
    /// A page at this offset becomes zeros.
    Zero(u64),
    /// This bit of the file is turned.
    Flip(u64),
}

impl Damage {
    fn draw(length: u64, random: &mut Random) -> Self {
        let pages = length.div_ceil(PAGE).max(1);
        match random.below(8) {
            0 => Self::Remove,
            1 => Self::Empty,
            2 => Self::Cut((pages - 1) * PAGE),
            3 => Self::Cut(random.below(length.max(1))),
            4 => Self::Zero(0),
            5 => Self::Zero(random.below(pages) * PAGE),
            _ => Self::Flip(random.below(length.max(1) * 8)),
        }
    }

    fn apply(self, path: &Path) -> std::io::Result<()> {
        if let Self::Remove = self {
            return fs::remove_file(path);
        }
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        match self {
            Self::Remove => Ok(()),
            Self::Empty => file.set_len(0),
            Self::Cut(to) => file.set_len(to),
            Self::Zero(at) => {
                let count = usize::try_from(length.saturating_sub(at).min(PAGE)).expect("a page");
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&vec![0; count])
            }
            Self::Flip(bit) if length > 0 => {
                let mut byte = [0];
                file.seek(SeekFrom::Start(bit / 8))?;
                file.read_exact(&mut byte)?;
                byte[0] ^= 1 << (bit % 8);
                file.seek(SeekFrom::Start(bit / 8))?;
                file.write_all(&byte)
            }
            Self::Flip(_) => Ok(()),
        }
    }
}

/// Draws a bit of a file's contents to flip. In the log, half of the draws are near its end, which
/// the next start looks at.
fn some_bit(path: &Path, random: &mut Random) -> Damage {
    let bytes = fs::read(path).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    let is_log = path.parent().is_some_and(|folder| folder.ends_with("wal"));
    let from = if is_log && random.below(2) == 0 { end.saturating_sub(PAGE / 4) } else { 0 };
    Damage::Flip(from * 8 + random.below((end - from).max(1) * 8))
}

/// A table large enough to have a visibility map, with that map, and with free space.
const LARGE: [&str; 4] = [
    "create table large (id int primary key, note text)",
    "insert into large select i, repeat('l', 300) from generate_series(1, 2000) as i",
    "delete from large where id % 3 = 0 and id < 500",
    "vacuum (index_cleanup on) large",
];

/// Questions on that table. Index entries alone answer the first one, where the visibility map
/// allows it.
const LARGE_QUESTIONS: [&str; 2] = [
    "select count(*), sum(id) from large where id > 0",
    "select count(*), sum(length(note)) from large where id > 0",
];

fn answers(client: &mut postgres::Client) -> Vec<(String, Answer)> {
    let mut answers = workload::answers(client);
    answers.extend(workload::answers_to(client, &LARGE_QUESTIONS));
    answers
}

/// Returns all files below a folder, as paths relative to it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                found.insert(path.strip_prefix(folder).expect("below it").to_owned());
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(copied.success());
}

/// Fills a directory whose server is then stopped, or killed with a tail of log. Returns the right
/// answers.
fn filled(data: &Path, killed: bool, random: &mut Random) -> Vec<(String, Answer)> {
    let mut server = Server::start(data, &SETTINGS);
    let mut client = server.client();
    workload::prepare(&mut client);
    for sql in LARGE {
        client.batch_execute(sql).expect("it is made");
    }
    let mut known = Known::default();
    workload::work(&mut client, 80, &mut known, random);
    client.batch_execute("checkpoint").expect("it is written");
    if killed {
        workload::work(&mut client, 20, &mut known, random);
        // The end of the log is vouched for in pauses.
        client.batch_execute("select pg_sleep(0.5)").expect("it sleeps");
    }
    let answers = answers(&mut client);
    workload::verify(&mut client, known);
    drop(client);
    if killed {
        server.kill();
    } else {
        assert!(server.stop());
    }
    answers
}

/// Decides whether a SQLSTATE reports damage.
fn tells(state: &str) -> bool {
    matches!(state, "XX001" | "XX002" | "58P01" | "58030")
}

/// Asks a server on a damaged directory. Whether all was answered.
fn asked(data: &Path, what: &str, right: &[(String, Answer)]) -> bool {
    match Server::try_start(data, &SETTINGS) {
        Ok(mut server) => {
            let whole = judge(&server, what, right);
            server.kill();
            let said = server.stderr();
            assert!(!said.contains("panicked"), "{what}: {said}");
            whole
        }
        Err(said) => {
            assert!(said.contains("niwaki") && !said.contains("panicked"), "{what}: {said}");
            false
        }
    }
}

fn judge(server: &Server, what: &str, right: &[(String, Answer)]) -> bool {
    let mut client = match server.try_client() {
        Ok(client) => client,
        Err(error) => {
            let state = error.code().map_or("none", |code| code.code()).to_owned();
            assert!(tells(&state), "{what}: {error:?}");
            return false;
        }
    };
    let mut whole = true;
    for ((question, right), (_, found)) in right.iter().zip(answers(&mut client)) {
        match found {
            Ok(_) => assert_eq!(right, &found, "{what}\n{question}"),
            Err(state) => {
                assert!(tells(&state), "{what}\n{question}: {state}");
                whole = false;
            }
        }
    }
    // Neither a key twice nor a number of a sequence.
    for (sql, refused) in [
        ("insert into item values (7, 0, '')", "23505"),
        ("insert into ledger values (-1, nextval('ticket'))", ""),
    ] {
        match client.batch_execute(sql) {
            Ok(()) => assert!(refused.is_empty(), "{what}: {sql} was done"),
            Err(error) => {
                let state = error.code().map_or("none", |code| code.code()).to_owned();
                assert!(state == refused || tells(&state), "{what}: {sql}: {error:?}");
                whole &= state == refused;
            }
        }
    }
    whole
}

/// A filled directory, with the right answers.
struct Filled {
    _dir: TempDir,
    whole: PathBuf,
    /// The copy that is damaged.
    data: PathBuf,
    right: Vec<(String, Answer)>,
    files: Vec<PathBuf>,
}

impl Filled {
    fn new(killed: bool) -> Self {
        let dir = TempDir::new("faults-damage");
        let (whole, data) = (dir.path().join("whole"), dir.path().join("data"));
        let right = filled(&whole, killed, &mut random(u64::from(killed)));
        let files = files(&whole).into_iter().filter(|path| path != Path::new("lock")).collect();
        Self { _dir: dir, whole, data, right, files }
    }

    /// Damages a copy and asks the questions on it.
    fn damaged(&self, path: &Path, damage: Damage, what: &str) {
        let (whole, data) = (&self.whole, &self.data);
        println!("{what}");
        copy(whole, data);
        damage.apply(&data.join(path)).expect("it is damaged");
        let before = files(data);
        let answered = asked(data, what, &self.right);
        let left = files(data);
        let gone: Vec<_> = before.difference(&left).collect();
        let kept = |path: &Path| path.starts_with("wal") || path == Path::new("lock");
        assert!(gone.iter().all(|path| kept(path)), "{what}: it removed {gone:?}");
        if !answered {
            copy(whole, data);
            damage.apply(&data.join(path)).expect("it is damaged");
            let mut check = Command::new(binary());
            let output = check.args(["check", "--data-dir"]).arg(data).output();
            let output = output.expect("the niwaki binary");
            assert!(!output.status.success(), "{what}: check is content: {}", text(&output));
        }
    }
}

#[test]
fn no_damage_of_a_file_gives_a_wrong_answer() {
    for killed in [false, true] {
        let filled = Filled::new(killed);
        each(&format!("damage, killed {killed}"), 60, |case| {
            let mut random = random(1000 + case);
            let drawn = random.below(filled.files.len() as u64);
            let path = &filled.files[usize::try_from(drawn).expect("an index")];
            let length = fs::metadata(filled.whole.join(path)).expect("it is there").len();
            let damage = Damage::draw(length, &mut random);
            let what = format!("case {case}, killed {killed}: {damage:?} of {}", path.display());
            filled.damaged(path, damage, &what);
        });
    }
}

/// Takes one after the other: catalog, tables, indexes, maps, free space, the log and its end,
/// control.
#[test]
fn no_bit_of_any_file_gives_a_wrong_answer() {
    for killed in [false, true] {
        let filled = Filled::new(killed);
        let count = filled.files.len() as u64;
        each(&format!("bits, killed {killed}"), count, |case| {
            let mut random = random(2000 + case);
            let path = &filled.files[usize::try_from(case % count).expect("an index")];
            let damage = some_bit(&filled.whole.join(path), &mut random);
            let what = format!("case {case}, killed {killed}: {damage:?} of {}", path.display());
            filled.damaged(path, damage, &what);
        });
    }
}
