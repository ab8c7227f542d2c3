//! Crash images: the states in which a crash may leave a disk.
//!
//! Any part of the unsynced changes may have reached the disk, in any order across files. For
//! example, a data page may precede the log that describes it. Each surviving write may be torn.
//!
//! With few unsynced changes all subsets are tried. Otherwise each file by itself gets none, all,
//! prefixes, suffixes, all but one, only one, and random subsets.

use std::collections::BTreeMap;
use std::fmt;

use super::content::Content;
use super::disk::{BodyChange, Disk};
use super::memory::MemoryVfs;
use crate::hash::HashSet;
use crate::rng::{Rng, SeededRng};

/// Bytes that a disk writes atomically: a sector.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Bytes that most file systems write atomically: a block.
const BLOCK_BYTES: u64 = 4096;
/// Up to this many unsynced changes of one file, each subset is equally likely.
const ALL_SUBSETS_UP_TO: usize = 10;
/// Tries for each wanted image before the search for a different one ends.
const TRIES_PER_IMAGE: usize = 8;

/// Number and kind of the crash images to make.
#[derive(Clone, Copy, Debug)]
pub struct CrashOptions {
    /// The greatest number of images, which all differ in the surviving changes.
    pub images_max: usize,
    /// True if surviving writes may be torn at 512-byte sectors and 4096-byte blocks.
    pub torn_writes: bool,
    /// True if a range by which a file grew may hold old bytes of the same file, when the write
    /// there did not survive. Journalling file systems do not do that; a recycled log segment shows
    /// the same.
    pub stale_bytes: bool,
    /// Seed of the random images.
    pub seed: u64,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { images_max: 64, torn_writes: true, stale_bytes: false, seed: 0 }
    }
}

/// One state in which a crash may leave the disk.
#[derive(Debug)]
pub struct CrashImage {
    /// The files.
    pub vfs: MemoryVfs,
    /// The unsynced changes that survived, for the report of a failure.
    pub survivors: String,
}

/// Outcome of one unsynced change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Lost,
    Whole,
    /// A torn write: only some of its units survived (bit n: the n-th touched unit of `unit`
    /// bytes).
    Torn {
        unit: u64,
        survived: Vec<bool>,
    },
    /// A write that only left its length behind.
    LengthOnly,
    /// A write that left its length and old bytes behind.
    Stale {
        seed: u64,
    },
}

/// Outcome of every unsynced change: names first, then each body's changes, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Choice {
    names: Vec<Fate>,
    bodies: Vec<Vec<Fate>>,
}

/// Returns all images of `disk` that `options` ask for, built as they are taken.
pub(super) fn images(disk: &Disk, options: &CrashOptions) -> impl Iterator<Item = CrashImage> {
    choices(disk, options).into_iter().map(move |choice| build(disk, &choice))
}

fn choices(disk: &Disk, options: &CrashOptions) -> Vec<Choice> {
    let names = disk.unsynced_names.len();
    let bodies: Vec<&[BodyChange]> = unsynced_bodies(disk).map(|(_, changes)| changes).collect();
    let total = names + bodies.iter().map(|changes| changes.len()).sum::<usize>();
    let mut found = Found { seen: HashSet::default(), list: Vec::new(), max: options.images_max };

    let exhaustive = total < usize::BITS as usize - 1 && (1_usize << total) <= options.images_max;
    if exhaustive {
        for mask in 0..(1_usize << total) {
            found.add(from_mask(mask, names, &bodies));
        }
    } else {
        found.add(uniform(names, &bodies, |_| &Fate::Lost));
        found.add(uniform(names, &bodies, |_| &Fate::Whole));
        for which in 0..bodies.len() {
            let only = |index| if index == which { &Fate::Whole } else { &Fate::Lost };
            let but = |index| if index == which { &Fate::Lost } else { &Fate::Whole };
            found.add(with_names(&Fate::Whole, uniform(names, &bodies, only)));
            found.add(with_names(&Fate::Whole, uniform(names, &bodies, but)));
        }
    }
    let varies = options.torn_writes || options.stale_bytes || !exhaustive;
    if total > 0 && varies {
        let rng = SeededRng::new(options.seed);
        let tries = options.images_max.saturating_mul(TRIES_PER_IMAGE);
        for _ in 0..tries {
            if found.full() {
                break;
            }
            found.add(random_choice(names, &bodies, options, &rng));
        }
    }
    found.list
}

struct Found {
    seen: HashSet<Choice>,
    list: Vec<Choice>,
    max: usize,
}

impl Found {
    fn full(&self) -> bool {
        self.list.len() >= self.max
    }

    fn add(&mut self, choice: Choice) {
        if !self.full() && self.seen.insert(choice.clone()) {
            self.list.push(choice);
        }
    }
}

fn unsynced_bodies(disk: &Disk) -> impl Iterator<Item = (u64, &[BodyChange])> {
    let dirty = disk.bodies.iter().filter(|(_, body)| !body.unsynced.is_empty());
    dirty.map(|(file, body)| (*file, &body.unsynced[..]))
}

fn from_mask(mask: usize, names: usize, bodies: &[&[BodyChange]]) -> Choice {
    let mut bit = 0;
    let mut take = |count: usize| -> Vec<Fate> {
        let fates = (bit..bit + count)
            .map(|index| if mask >> index & 1 == 1 { Fate::Whole } else { Fate::Lost })
            .collect();
        bit += count;
        fates
    };
    Choice {
        names: take(names),
        bodies: bodies.iter().map(|changes| take(changes.len())).collect(),
    }
}

/// Returns a choice with one fate for all names (index `usize::MAX`), and one for all changes of
/// each body.
fn uniform<'f>(names: usize, bodies: &[&[BodyChange]], fate: impl Fn(usize) -> &'f Fate) -> Choice {
    Choice {
        names: vec![fate(usize::MAX).clone(); names],
        bodies: bodies
            .iter()
            .enumerate()
            .map(|(index, changes)| vec![fate(index).clone(); changes.len()])
            .collect(),
    }
}

fn with_names(fate: &Fate, mut choice: Choice) -> Choice {
    choice.names.fill(fate.clone());
    choice
}

fn random_choice(
    names: usize,
    bodies: &[&[BodyChange]],
    options: &CrashOptions,
    rng: &SeededRng,
) -> Choice {
    let mut choice = Choice {
        names: random_subset(names, rng),
        bodies: bodies.iter().map(|changes| random_subset(changes.len(), rng)).collect(),
    };
    // Most interesting states need the names of their files.
    if rng.chance(1, 2) {
        choice.names.fill(Fate::Whole);
    }
    for (fates, changes) in choice.bodies.iter_mut().zip(bodies) {
        vary(fates, changes, options, rng);
    }
    choice
}

fn random_subset(count: usize, rng: &SeededRng) -> Vec<Fate> {
    let pick = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap_or(0);
    let at = pick(count.max(1));
    let kind = if count <= ALL_SUBSETS_UP_TO { 6 } else { pick(8) };
    let bits = rng.next_u64();
    let survives = |index: usize| match kind {
        0 => false,
        1 => true,
        2 => index <= at,
        3 => index >= at,
        4 => index != at,
        5 => index == at,
        _ => bits >> (index % 64) & 1 == 1,
    };
    (0..count).map(|index| if survives(index) { Fate::Whole } else { Fate::Lost }).collect()
}

/// Tears some survivors, and makes some lost writes leave their length behind.
fn vary(fates: &mut [Fate], changes: &[BodyChange], options: &CrashOptions, rng: &SeededRng) {
    let tear_one = options.torn_writes && rng.chance(1, 2);
    let tear_all = tear_one && rng.chance(1, 8);
    let survivors: Vec<usize> =
        (0..fates.len()).filter(|index| fates[*index] == Fate::Whole).collect();
    let torn = usize::try_from(rng.below(survivors.len() as u64)).unwrap_or(0);
    for (nth, index) in survivors.into_iter().enumerate() {
        if tear_all || tear_one && nth == torn {
            fates[index] = tear(&changes[index], rng);
        }
    }
    for (fate, change) in fates.iter_mut().zip(changes) {
        let lost_write = *fate == Fate::Lost && matches!(change, BodyChange::Write { .. });
        if lost_write && options.stale_bytes && rng.chance(1, 4) {
            *fate = Fate::Stale { seed: rng.next_u64() };
        } else if lost_write && options.torn_writes && rng.chance(1, 4) {
            *fate = Fate::LengthOnly;
        }
    }
}

fn tear(change: &BodyChange, rng: &SeededRng) -> Fate {
    let BodyChange::Write { offset, bytes } = change else { return Fate::Whole };
    let unit = if rng.chance(1, 4) { BLOCK_BYTES } else { SECTOR_BYTES };
    let units = touched_units(*offset, bytes.len(), unit);
    if units < 2 {
        return Fate::Whole;
    }
    let at = 1 + usize::try_from(rng.below(units as u64 - 1)).unwrap_or(0);
    let kind = rng.below(3);
    let survived = (0..units)
        .map(|index| match kind {
            0 => index < at,
            1 => index >= at,
            _ => rng.chance(1, 2),
        })
        .collect();
    Fate::Torn { unit, survived }
}

fn touched_units(offset: u64, len: usize, unit: u64) -> usize {
    if len == 0 {
        return 0;
    }
    let last = (offset + len as u64 - 1) / unit;
    usize::try_from(last - offset / unit + 1).expect("a write that fits in memory")
}

fn build(disk: &Disk, choice: &Choice) -> CrashImage {
    let mut names = disk.durable_names.clone();
    for (unsynced, fate) in disk.unsynced_names.iter().zip(&choice.names) {
        if *fate != Fate::Lost {
            unsynced.change.apply(&mut names);
        }
    }
    let mut changed: BTreeMap<u64, Content> = BTreeMap::new();
    for ((file, changes), fates) in unsynced_bodies(disk).zip(&choice.bodies) {
        let mut content = disk.bodies[&file].durable.clone();
        for (change, fate) in changes.iter().zip(fates) {
            apply(change, fate, &mut content);
        }
        changed.insert(file, content);
    }
    // A folder whose parent did not survive is not reachable, nor is a file in such a folder.
    let mut folders = std::mem::take(&mut names.folders);
    let all = folders.clone();
    folders.retain(|folder| folder.match_indices('/').all(|(at, _)| all.contains(&folder[..at])));
    let files = names
        .files
        .iter()
        .filter(|(path, _)| {
            let folder = super::parent(path);
            folder.is_empty() || folders.contains(folder)
        })
        .map(|(path, file)| {
            let content = changed.get(file).unwrap_or(&disk.bodies[file].durable);
            (path.clone(), content.clone())
        })
        .collect();
    let survivors = describe(disk, choice);
    CrashImage { vfs: MemoryVfs::from_parts(files, folders), survivors }
}

fn apply(change: &BodyChange, fate: &Fate, content: &mut Content) {
    match (fate, change) {
        (Fate::Lost, _) => {}
        (Fate::Torn { unit, survived }, BodyChange::Write { offset, bytes }) => {
            let first = offset / unit;
            for (index, _) in survived.iter().enumerate().filter(|(_, survived)| **survived) {
                let from = ((first + index as u64) * unit).max(*offset);
                let to = ((first + index as u64 + 1) * unit).min(offset + bytes.len() as u64);
                let range = usize::try_from(from - offset).expect("inside the write")
                    ..usize::try_from(to - offset).expect("inside the write");
                content.write_at(&bytes[range], from);
            }
        }
        (Fate::LengthOnly | Fate::Stale { .. }, BodyChange::Write { offset, bytes }) => {
            let before = content.len();
            let end = offset + bytes.len() as u64;
            if end <= before {
                return;
            }
            content.set_len(end);
            if let Fate::Stale { seed } = fate {
                let from = before.max(*offset);
                let len = usize::try_from(end - from).expect("inside the write");
                content.write_at(&stale_bytes(content, before, len, *seed), from);
            }
        }
        _ => change.apply(content),
    }
}

/// Returns bytes as an earlier use of the disk may have left them: an older part of the same file.
fn stale_bytes(content: &Content, durable_len: u64, len: usize, seed: u64) -> Vec<u8> {
    let rng = SeededRng::new(seed);
    let mut bytes = vec![0; len];
    let pages = durable_len / (2 * BLOCK_BYTES);
    if pages == 0 {
        bytes.fill_with(|| rng.next_u64().to_le_bytes()[0]);
    } else {
        content.read_at(&mut bytes, rng.below(pages) * 2 * BLOCK_BYTES);
    }
    bytes
}

fn describe(disk: &Disk, choice: &Choice) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    let letters = |fates: &[Fate]| -> String {
        fates
            .iter()
            .map(|fate| match fate {
                Fate::Lost => '-',
                Fate::Whole => '+',
                Fate::Torn { .. } => 't',
                Fate::LengthOnly => 'l',
                Fate::Stale { .. } => 's',
            })
            .collect()
    };
    let _ = write!(text, "names {}", letters(&choice.names));
    for ((file, _), fates) in unsynced_bodies(disk).zip(&choice.bodies) {
        let name = disk.names.files.iter().find(|(_, id)| **id == file);
        let name = name.map_or("(removed)", |(path, _)| path.as_str());
        let _ = write!(text, ", {name} {}", letters(fates));
    }
    text
}
