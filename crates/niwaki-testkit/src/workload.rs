//! Random statements that a seed determines.

use niwaki_env::rng::SeededRng;

use crate::model::{Isolation, Key, Model, Step};

/// The mix of statements in a workload.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Keys are drawn from `0..keys`: few keys give long chains and many conflicts.
    pub keys: Key,
    /// Sessions, interleaved.
    pub sessions: u32,
    /// Lets CHECKPOINT and VACUUM occur.
    pub maintenance: bool,
    /// Most savepoints one transaction has at a time.
    pub savepoints_max: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self { keys: 24, sessions: 1, maintenance: true, savepoints_max: 3 }
    }
}

/// Chooses statements that the model can follow: none that would have to wait.
#[derive(Debug)]
pub struct Workload {
    mix: Mix,
    rng: SeededRng,
    values: i64,
    names: u32,
}

impl Workload {
    /// Returns the workload of this seed.
    pub fn new(mix: Mix, seed: u64) -> Self {
        Self { mix, rng: SeededRng::new(seed), values: 0, names: 0 }
    }

    /// Lets values count up from `first`, so that they differ from the values of another workload.
    #[must_use]
    pub fn with_values_from(mut self, first: i64) -> Self {
        self.values = first;
        self
    }

    /// Returns the next statement and its session, given what happened so far.
    pub fn next(&mut self, model: &Model) -> (u32, Step) {
        // Ends: COMMIT never waits, and each session is drawn again and again.
        loop {
            let session = u32::try_from(self.rng.below(self.mix.sessions.into())).unwrap_or(0);
            let step = self.step(session, model);
            if !model.would_block(session, &step) {
                return (session, step);
            }
        }
    }

    fn step(&mut self, session: u32, model: &Model) -> Step {
        let dice = self.rng.below(100);
        if !model.in_transaction(session) {
            return match dice {
                0..=49 => Step::Begin(match self.rng.below(2) {
                    0 => Isolation::ReadCommitted,
                    _ => Isolation::RepeatableRead,
                }),
                50..=53 if self.mix.maintenance => Step::Checkpoint,
                54..=57 if self.mix.maintenance => Step::Vacuum,
                _ => self.row_step(model),
            };
        }
        let savepoints = model.savepoints(session);
        if model.failed(session) {
            return match savepoints.last() {
                Some(name) if dice < 60 => Step::RollbackTo(*name),
                _ if dice < 80 => Step::Rollback,
                _ => Step::Commit,
            };
        }
        match dice {
            0..=11 => Step::Commit,
            12..=14 => Step::Rollback,
            15..=26 if savepoints.len() < self.mix.savepoints_max as usize => {
                self.names += 1;
                Step::Savepoint(self.names)
            }
            34..=39 if !savepoints.is_empty() => Step::RollbackTo(self.pick(&savepoints)),
            40..=43 if !savepoints.is_empty() => Step::Release(self.pick(&savepoints)),
            _ => self.row_step(model),
        }
    }

    fn row_step(&mut self, model: &Model) -> Step {
        let bound = self.mix.keys.unsigned_abs();
        let key = Key::try_from(self.rng.below(bound)).unwrap_or(0);
        self.values += 1;
        match self.rng.below(100) {
            // Mostly free keys, since a duplicate ends the transaction's work.
            0..=29 if self.rng.chance(1, 8) || !model.exists(key) => Step::Insert(key, self.values),
            30..=74 => Step::Update(key, self.values),
            75..=86 => Step::Delete(key),
            87..=95 => Step::Read(key),
            _ => Step::Scan,
        }
    }

    fn pick(&self, names: &[u32]) -> u32 {
        names[usize::try_from(self.rng.below(names.len() as u64)).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Reply;

    #[test]
    fn a_seed_gives_one_workload_with_everything_in_it() {
        let run = |seed| {
            let mut model = Model::new();
            let mut workload = Workload::new(Mix { sessions: 3, ..Mix::default() }, seed);
            let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
            let mut log = Vec::new();
            for _ in 0..5000 {
                let (session, step) = workload.next(&model);
                let (reply, _) = model.apply(session, &step);
                let name = format!("{step:?}");
                let name = name.split('(').next().unwrap_or_default().to_owned();
                let name = match &reply {
                    Reply::Error(state) => format!("{name} {state}"),
                    _ => name,
                };
                *kinds.entry(name).or_default() += 1;
                log.push((session, step));
            }
            (kinds, log, model.commits())
        };
        let (kinds, log, commits) = run(1);
        assert_eq!(run(1).1, log);
        assert_ne!(run(2).1, log);
        assert!(commits > 300, "{commits}");
        for wanted in ["Insert 23505", "Update 40001", "RollbackTo", "Release", "Checkpoint"] {
            assert!(kinds.get(wanted).is_some_and(|count| *count > 10), "{wanted}: {kinds:?}");
        }
    }
}
