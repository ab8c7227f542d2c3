//! Directories that one process opens and closes, several at a time.

use std::collections::BTreeMap;

use niwaki::{Database, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;

use crate::size::{Size, Views, views};
use crate::{Folder, all, draw, ok, options, quiet};

const PLACES: u64 = 3;
/// Steps per round, each with one of the directories.
const STEPS: usize = 4;

/// The directories.
pub(crate) struct Places(Vec<Place>);

/// A directory, the expected rows of its table, and a handle while it is open.
struct Place {
    folder: Folder,
    rows: BTreeMap<i32, i32>,
    open: Option<Database>,
}

impl Places {
    pub(crate) fn new() -> Self {
        let place = |number: u64| {
            let folder = Folder::new(&format!("several-{number}"));
            let database = Database::open_with(Env::os(&folder.0), options()).unwrap();
            ok(&mut database.session(), "create table t (a int primary key, b int)");
            Place { folder, rows: BTreeMap::new(), open: None }
        };
        Self((0..PLACES).map(place).collect())
    }

    /// Works with some of the directories and closes all.
    pub(crate) fn round(&mut self, rng: &SeededRng) -> Size {
        let mut most: Views = [0; 3];
        for _ in 0..STEPS {
            let place = &mut self.0[rng.below(PLACES) as usize];
            if place.open.is_none() && rng.chance(1, 4) {
                place.look();
            } else {
                let seen = place.step(rng);
                most = std::array::from_fn(|kind| most[kind].max(seen[kind]));
            }
        }
        for place in &mut self.0 {
            drop(place.open.take());
        }
        let envs: Vec<Env> = self.0.iter().map(Place::env).collect();
        Size::now(&envs, most)
    }

    /// Checks that all directories are sound.
    pub(crate) fn end(self) {
        for place in self.0 {
            let database = quiet(&place.env());
            place.assert_rows(&mut database.session());
            assert_eq!(database.check().unwrap().violations, []);
        }
    }
}

impl Place {
    fn env(&self) -> Env {
        Env::os(&self.folder.0)
    }

    fn assert_rows(&self, session: &mut Session) {
        let shown: Vec<String> = self.rows.iter().map(|(a, b)| format!("{a}|{b}")).collect();
        assert_eq!(ok(session, "select a, b from t order by a"), shown.join("\n"));
    }

    /// Opens the directory for reading only.
    fn look(&self) {
        let database = Database::look_into(self.env(), options()).unwrap();
        self.assert_rows(&mut database.session());
    }

    /// Works with the directory, and closes it in one of several ways, or leaves it open.
    fn step(&mut self, rng: &SeededRng) -> Views {
        let env = self.env();
        let database = self.open.take();
        let database =
            database.unwrap_or_else(|| Database::open_with(env.clone(), options()).unwrap());
        // No second opening succeeds.
        assert_eq!(Database::open_with(env, options()).unwrap_err().sqlstate, "55000");
        let mut session = database.session();
        self.assert_rows(&mut session);
        for _ in 0..4 {
            let (a, b) = (draw(rng, 100), draw(rng, 1000));
            if rng.chance(1, 3) {
                ok(&mut session, &format!("delete from t where a = {a}"));
                self.rows.remove(&a);
            } else {
                let write = "on conflict (a) do update set b = excluded.b";
                ok(&mut session, &format!("insert into t values ({a}, {b}) {write}"));
                self.rows.insert(a, b);
            }
        }
        if rng.chance(1, 3) {
            ok(&mut session, "create database other");
            let mut inside = database.session_as("postgres", "other", &[]).unwrap();
            all(&mut inside, &["create table u (a serial)", "insert into u values (1)"]);
            drop(inside);
            ok(&mut session, "drop database other");
        }
        if rng.chance(1, 3) {
            all(&mut session, &["create temp table own (a int primary key)", "listen churn"]);
        }
        let seen = views(&mut session);
        match rng.below(4) {
            // An idle session does not prevent the close.
            0 => database.close().unwrap(),
            // The last handle is a session's. Its transaction is rolled back.
            1 => {
                drop(database);
                all(&mut session, &["begin", "delete from t"]);
            }
            2 => drop(database),
            _ => self.open = Some(database),
        }
        drop(session);
        seen
    }
}
