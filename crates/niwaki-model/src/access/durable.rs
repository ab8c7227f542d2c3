//! The log and the disk, with crashes and recovery.
//!
//! One step is one log record: the pages it changed. Hints (LP_DEAD) are in no record; they reach
//! the disk when their page is written for any reason. After a crash each page is as it was written
//! last, and every flushed record after that is applied to it. So a hint that was on disk stays,
//! unless a record takes it back (rule `dead-marks`).

use crate::random::Random;
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, Tid};
use crate::state::index::{Leaf, Phase, Place};
use crate::state::log::{Commit, Image, Log, PageId};
use crate::state::row_locks::RowLocks;
use crate::state::settling::Settling;
use crate::state::share::Share;
use crate::state::transactions::Status;
use crate::state::violation::Invariant;
use crate::state::world::{Record, World};

/// Writes pages at random moments; a page is written after the log that describes it (W1). A leaf
/// may also leave the pool and come back, with a version that no leaf had before
/// (rule `leaf-version`).
pub(crate) async fn writer(actor: Actor, rounds: usize) {
    for _ in 0..rounds {
        // The writer waits, so that it takes one turn per step of another actor, whatever its
        // priority.
        actor.wait().await;
        let mut world = actor.world();
        match world.random.below(6) {
            0 => world.write_some_page(),
            1 => world.evict_some_leaf(),
            _ => {}
        }
    }
}

/// Makes every flush fail from a random moment on. A crash must follow, since nothing is published
/// any more.
pub(crate) async fn failing_device(actor: Actor) {
    let delay = actor.world().random.below(60);
    for _ in 0..delay {
        actor.wait().await;
    }
    let mut world = actor.world();
    world.log.failed = true;
    world.say(|| "from now on each flush fails".to_owned());
}

impl World {
    /// Begins to keep a log; the disk equals memory then.
    pub(crate) fn keep_log(&mut self) {
        self.log.kept = true;
        for page in self.page_ids() {
            self.log.disk.insert(page, (0, self.image(page)));
        }
    }

    fn page_ids(&self) -> Vec<PageId> {
        let heap = (0..u8::try_from(self.pages.len()).expect("few pages")).map(PageId::Heap);
        let leaves = self.indexes.iter().enumerate().flat_map(|(index, of)| {
            (0..of.leaves.len()).map(move |leaf| PageId::Leaf(index, leaf))
        });
        heap.chain(leaves).collect()
    }

    fn image(&self, page: PageId) -> Image {
        match page {
            PageId::Heap(page) => Image::Heap(self.pages[usize::from(page)].clone()),
            PageId::Leaf(index, leaf) => Image::Leaf(self.leaf(index, leaf).clone()),
        }
    }

    pub(crate) fn log_revival(&mut self, index: usize, leaf: usize, place: Place) {
        if self.log.kept {
            self.log.next.revived.push((PageId::Leaf(index, leaf), place));
        }
    }

    /// Logs the changes of the step as one record.
    pub(crate) fn log_step(&mut self) {
        if !self.log.kept || (self.log.changed.is_empty() && self.log.next.commit.is_none()) {
            return;
        }
        let mut record = std::mem::take(&mut self.log.next);
        let lsn = self.log.records.len() + 1;
        for page in std::mem::take(&mut self.log.changed) {
            record.images.push((page, self.image(page)));
            self.log.lsn.insert(page, lsn);
        }
        if let Some(commit) = &record.commit {
            self.log.commits.insert(commit.csn, lsn);
        }
        self.log.records.push(record);
    }

    fn write_some_page(&mut self) {
        if self.log.failed {
            // The log that describes the page cannot be flushed (W1).
            return;
        }
        let pages = self.page_ids();
        let page = self.random.pick(&pages);
        let lsn = self.log.lsn.get(&page).copied().unwrap_or(0);
        self.log.flushed = self.log.flushed.max(lsn);
        self.say(|| format!("writes {page:?}"));
        let image = self.image(page);
        self.log.disk.insert(page, (lsn, image));
    }

    fn evict_some_leaf(&mut self) {
        let index = self.random.below(self.indexes.len());
        let leaves = self.indexes[index].leaves.len();
        let leaf = self.random.below(leaves);
        if self.leaf(index, leaf).latch.is_some() {
            return;
        }
        self.say(|| format!("evicts leaf {leaf} of index {index}, and reads it again"));
        let global = self.rules.has(Rule::LeafVersionGlobal);
        let version = if global { self.next_leaf_version() } else { 0 };
        self.indexes[index].leaves[leaf].version = version;
    }

    /// Loses everything in memory, then recovers. `random` decides how much more of the log than
    /// was flushed had reached the disk.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let unflushed = self.log.records.len() - self.log.flushed;
        self.log.flushed += random.below(unflushed + 1);
        self.events.crashes += 1;
        self.at_work = "crash".to_owned();
        let (flushed, records) = (self.log.flushed, self.log.records.len());
        self.say(|| format!("{flushed} of {records} records are left"));
        self.recover_pages();
        self.recover_transactions();
        self.forget_memory();
        let log = std::mem::take(&mut self.log);
        drop(log);
        self.keep_log();
        self.touch();
    }

    fn recover_pages(&mut self) {
        let Log { mut disk, records, flushed, .. } = self.log.clone();
        for (lsn, record) in (1..=flushed).zip(&records) {
            for (page, image) in &record.images {
                if disk.get(page).is_some_and(|(on_disk, _)| *on_disk >= lsn) {
                    continue;
                }
                let mut image = image.clone();
                if let Image::Leaf(new) = &mut image {
                    let old = disk.get(page).map(|(_, image)| image);
                    let revived = |place: Place| record.revived.contains(&(*page, place));
                    for entry in &mut new.entries {
                        entry.dead = !revived(entry.place()) && was_dead(old, entry.place());
                    }
                }
                disk.insert(*page, (lsn, image));
            }
        }
        for index in &mut self.indexes {
            // An unfinished build has to begin again.
            if index.phase != Phase::Valid {
                index.phase = Phase::Absent;
            }
            index.leaves.clear();
        }
        for (page, (_, image)) in disk {
            match (page, image) {
                (PageId::Heap(page), Image::Heap(image)) => self.pages[usize::from(page)] = image,
                (PageId::Leaf(index, _), Image::Leaf(mut image)) => {
                    self.leaf_versions += 1;
                    image.version = self.leaf_versions;
                    image.latch = None;
                    self.indexes[index].leaves.push(image);
                }
                _ => unreachable!("images are of the kind of their page"),
            }
        }
        for index in &mut self.indexes {
            if index.phase == Phase::Absent {
                index.leaves = vec![Leaf::default()];
            }
        }
    }

    fn recover_transactions(&mut self) {
        let records = self.log.records[..self.log.flushed].to_vec();
        let commits: Vec<Commit> = records.into_iter().filter_map(|record| record.commit).collect();
        // Transactions that an earlier recovery found committed stay committed.
        let start = self.log.commits.keys().next().copied().unwrap_or(self.transactions.next);
        let last = commits.last().map_or(start - 1, |commit| commit.csn);
        for xid in self.transactions.all() {
            let stays = self.transactions.csn(xid).is_some_and(|csn| csn < start);
            if !stays {
                if self.transactions.csn(xid).is_some_and(|csn| csn > last) {
                    self.events.lost_commits += 1;
                }
                self.transactions.mark(xid, Status::Aborted);
            }
        }
        self.oracle.forget_after(last);
        for commit in commits {
            for xid in commit.xids {
                self.transactions.mark(xid, Status::Committed(commit.csn));
            }
            if !self.oracle.has_commit(commit.csn) {
                self.oracle_commit(commit.csn, &commit.writes);
            }
        }
        self.transactions.begin_again(last);
        self.pending.clear();
        let answered = self.answered;
        if answered > last {
            self.violate(Invariant::LostAnswer, || {
                format!("a client has an answer that depends on {answered}; {last} is the last")
            });
        }
    }

    fn forget_memory(&mut self) {
        self.locks = RowLocks::default();
        self.cleaner = None;
        self.builds = 0;
        self.shares.fill(Share::default());
        for page in &mut self.pages {
            for pointer in &mut page.pointers {
                // On disk, `cleaning` means yes (rule `mixed-flag`).
                if pointer.mixed == Mixed::Cleaning {
                    pointer.mixed = Mixed::Yes;
                }
            }
        }
        self.settling = Settling::default();
        // All records are incomplete now (rule `complete-record`).
        self.records.clear();
        for tid in Tid::all().filter(|tid| self.is_root(*tid)).collect::<Vec<_>>() {
            self.records.insert(tid, Record { keys: Vec::new(), incomplete: true });
        }
    }
}

fn was_dead(image: Option<&Image>, place: Place) -> bool {
    match image {
        Some(Image::Leaf(leaf)) => leaf.find(place).is_some_and(|n| leaf.entries[n].dead),
        _ => false,
    }
}
