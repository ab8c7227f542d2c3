//! The index is compared with an ordered set: after all steps, both hold the same entries.

use std::collections::{BTreeMap, BTreeSet};

use niwaki_storage::{Tid, Xid};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::test_table::TestTable;
use super::{checked, entry, index};
use crate::{
    Direction, EntryDecision, EntryOutcome, Index, IndexOptions, IndexStats, KeyBound, KeyRange,
    Marked, NewEntry, Place, RangeSource, RangeStep, Scan, SplitStrategy,
};

type Model = BTreeMap<(Vec<u8>, Tid), Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Insert {
        key: Vec<u8>,
        payload: Vec<u8>,
        tid: Tid,
        /// True if hinted to be another version of a row; the table allows to delete entries that
        /// [`is_dead`] accepts.
        version: bool,
    },
    Delete {
        key: Vec<u8>,
        tid: Tid,
    },
    Scan {
        lower: Bound,
        upper: Bound,
        backward: bool,
    },
    /// Reads the keys that begin with one of these bytes.
    Ranges {
        firsts: BTreeSet<u8>,
        backward: bool,
    },
    /// Reads the keys with this second byte, learning the first bytes on the way.
    Skip {
        second: u8,
        backward: bool,
    },
    /// Marks the entries that a scan of the key returns at even positions, then inserts these
    /// again.
    MarkAndRestore {
        key: Vec<u8>,
    },
    /// Deletes every entry of one heap block.
    Vacuum {
        block: u32,
    },
    /// Deletes every entry of a range, one after the other: pages become empty.
    Clear {
        lower: Bound,
        upper: Bound,
    },
    /// Marks every entry of a range. Then empties wholly marked leaves, except entries on the heap
    /// block `kept`. Inserts the remaining entries again.
    Die {
        lower: Bound,
        upper: Bound,
        kept: u32,
    },
}

#[derive(Clone, Debug)]
enum Bound {
    Unbounded,
    Included(Vec<u8>),
    Excluded(Vec<u8>),
}

impl Bound {
    fn as_key_bound(&self) -> KeyBound<'_> {
        match self {
            Self::Unbounded => KeyBound::Unbounded,
            Self::Included(bytes) => KeyBound::Included(bytes),
            Self::Excluded(bytes) => KeyBound::Excluded(bytes),
        }
    }
}

/// Generates keys with long common prefixes, keys that are prefixes of each other, and many equal
/// ones.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..5),
        2 => (0u16..300).prop_map(|n| n.to_be_bytes().to_vec()),
        3 => (0u8..3).prop_map(|n| vec![n; 4]),
        1 => (0u8..4, 1usize..600).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn tid() -> impl Strategy<Value = Tid> {
    (0u32..6, 1u16..12).prop_map(|(block, offset)| Tid::new(block, offset))
}

/// Decides whether an entry may go when room is needed.
fn is_dead(tid: Tid) -> bool {
    tid.offset.0.is_multiple_of(3)
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let payload = prop::collection::vec(any::<u8>(), 0..3);
    prop_oneof![
        12 => (key(), payload, tid(), any::<bool>()).prop_map(|(key, payload, tid, version)| {
            Step::Insert { key, payload, tid, version }
        }),
        3 => (key(), tid()).prop_map(|(key, tid)| Step::Delete { key, tid }),
        3 => (bound(), bound(), any::<bool>())
            .prop_map(|(lower, upper, backward)| Step::Scan { lower, upper, backward }),
        2 => (prop::collection::btree_set(first_byte(), 0..6), any::<bool>())
            .prop_map(|(firsts, backward)| Step::Ranges { firsts, backward }),
        2 => (first_byte(), any::<bool>())
            .prop_map(|(second, backward)| Step::Skip { second, backward }),
        1 => key().prop_map(|key| Step::MarkAndRestore { key }),
        1 => (0u32..6).prop_map(|block| Step::Vacuum { block }),
        1 => (bound(), bound()).prop_map(|(lower, upper)| Step::Clear { lower, upper }),
        1 => (bound(), bound(), 0u32..24)
            .prop_map(|(lower, upper, kept)| Step::Die { lower, upper, kept }),
    ]
}

fn first_byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0u8..5, 1 => Just(255u8), 1 => any::<u8>()]
}

/// Ranges of keys that begin with one of some bytes.
struct Firsts {
    bytes: Vec<u8>,
    direction: Direction,
    /// The number of bytes that are behind the scan.
    done: usize,
}

impl RangeSource for Firsts {
    fn next(&mut self, found: Option<&[u8]>, place: &mut Place) -> Option<RangeStep> {
        let Some(found) = found else {
            let Some(&byte) = self.bytes.get(self.done) else { return Some(RangeStep::End) };
            self.done += 1;
            place.set_lower(KeyBound::Included(&[byte]));
            place.set_upper(KeyBound::Included(&[byte]));
            return Some(RangeStep::Range);
        };
        while let Some(byte) = self.bytes.get(self.done) {
            let behind = match self.direction {
                Direction::Forward => found.first() > Some(byte),
                Direction::Backward => found.first() < Some(byte),
            };
            if !behind {
                break;
            }
            self.done += 1;
        }
        self.next(None, place)
    }
}

/// Ranges of keys with one second byte.
struct SecondByte {
    second: u8,
    direction: Direction,
    first: Option<u8>,
}

impl RangeSource for SecondByte {
    fn next(&mut self, found: Option<&[u8]>, place: &mut Place) -> Option<RangeStep> {
        let forward = self.direction == Direction::Forward;
        let past = match (found, self.first) {
            (None, None) => {
                place.set_lower(KeyBound::Unbounded);
                place.set_upper(KeyBound::Unbounded);
                return Some(RangeStep::Seek);
            }
            (None, Some(first)) => first,
            (Some([]), _) => {
                place.set_lower(KeyBound::Included(&[0]));
                return Some(if forward { RangeStep::Seek } else { RangeStep::End });
            }
            (Some([first, rest @ ..]), _) => {
                let behind = if forward {
                    rest.first().is_some_and(|byte| *byte > self.second)
                } else {
                    rest.first().is_none_or(|byte| *byte < self.second)
                };
                if !behind {
                    self.first = Some(*first);
                    place.set_lower(KeyBound::Included(&[*first, self.second]));
                    place.set_upper(KeyBound::Included(&[*first, self.second]));
                    return Some(RangeStep::Range);
                }
                *first
            }
        };
        place.set_lower(KeyBound::Excluded(&[past]));
        place.set_upper(KeyBound::Excluded(&[past]));
        Some(RangeStep::Seek)
    }
}

/// Compares a scan of several ranges with the model's entries.
fn check_ranges(
    index: &Index,
    model: &Model,
    backward: bool,
    mut ranges: impl RangeSource,
    wanted: impl Fn(&[u8]) -> bool,
) {
    let direction = if backward { Direction::Backward } else { Direction::Forward };
    let mut scan = Scan::default();
    scan.start_ranges(index, direction);
    let mut found = Vec::new();
    while scan.next_with(index, Some(&mut ranges), |_| {}).unwrap() {
        found.extend(scan.batch().iter().map(|entry| (entry.key.to_vec(), entry.tid)));
    }
    let mut expected: Vec<_> = model.keys().filter(|(key, _)| wanted(key)).cloned().collect();
    if backward {
        expected.reverse();
    }
    assert_eq!(found, expected);
}

fn options() -> impl Strategy<Value = IndexOptions> {
    let items_max = prop_oneof![2 => (3u16..8).prop_map(Some), 1 => Just(None)];
    (items_max, 10u8..=100, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(page_items_max, fillfactor, half, suffix_truncation, deduplicate_items)| IndexOptions {
            page_items_max,
            fillfactor,
            deduplicate_items,
            split_strategy: if half { SplitStrategy::Half } else { SplitStrategy::Informed },
            suffix_truncation,
            ..IndexOptions::default()
        },
    )
}

fn scan_all(
    index: &Index,
    range: &KeyRange<'_>,
    direction: Direction,
) -> Vec<(Vec<u8>, Tid, Vec<u8>)> {
    let mut scan = Scan::default();
    scan.start(index, range, direction);
    let mut found = Vec::new();
    while scan.next(index).unwrap() {
        let entries = scan.batch().iter();
        found.extend(entries.map(|e| (e.key.to_vec(), e.tid, e.payload.to_vec())));
    }
    found
}

fn run(index: &Index, model: &mut Model, step: &Step) {
    match step {
        Step::Insert { key, payload, tid, version } => {
            // Posting lists have no payload.
            let payload = if index.options().deduplicate_items { &vec![] } else { payload };
            let new = NewEntry { payload, logically_unchanged: *version, ..entry(key, *tid) };
            let table = TestTable::new(|candidate| is_dead(candidate.tid));
            let outcome = index.insert(&new, None, Some(&table)).unwrap();
            let known = model.contains_key(&(key.clone(), *tid));
            let expected = if known { EntryOutcome::AlreadyThere } else { EntryOutcome::Inserted };
            assert_eq!(outcome, expected);
            // Entries that the table allowed to go are gone; the table may have been asked about
            // them twice.
            table.allowed.borrow().iter().for_each(|gone| {
                model.remove(gone);
            });
            model.entry((key.clone(), *tid)).or_insert_with(|| payload.clone());
        }
        Step::Delete { key, tid } => {
            let deleted = index
                .delete_entry(key, *tid, Xid::INVALID, &mut || Ok((EntryDecision::Delete, None)))
                .unwrap();
            assert_eq!(deleted, model.remove(&(key.clone(), *tid)).is_some());
        }
        Step::Scan { lower, upper, backward } => {
            let range = KeyRange { lower: lower.as_key_bound(), upper: upper.as_key_bound() };
            let mut expected: Vec<_> = model
                .iter()
                .filter(|((key, _), _)| range.contains(key))
                .map(|((key, tid), payload)| (key.clone(), *tid, payload.clone()))
                .collect();
            let mut direction = Direction::Forward;
            if *backward {
                expected.reverse();
                direction = Direction::Backward;
            }
            assert_eq!(scan_all(index, &range, direction), expected);
        }
        Step::Ranges { firsts, backward } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let mut bytes: Vec<u8> = firsts.iter().copied().collect();
            if *backward {
                bytes.reverse();
            }
            let ranges = Firsts { bytes, direction, done: 0 };
            let wanted = |key: &[u8]| key.first().is_some_and(|byte| firsts.contains(byte));
            check_ranges(index, model, *backward, ranges, wanted);
        }
        Step::Skip { second, backward } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let ranges = SecondByte { second: *second, direction, first: None };
            check_ranges(index, model, *backward, ranges, |key| key.get(1) == Some(second));
        }
        Step::MarkAndRestore { key } => mark_and_restore(index, model, key),
        Step::Vacuum { block } => vacuum(index, model, *block),
        Step::Clear { lower, upper } => {
            let range = KeyRange { lower: lower.as_key_bound(), upper: upper.as_key_bound() };
            let gone: Vec<_> =
                model.keys().filter(|(key, _)| range.contains(key)).cloned().collect();
            for (key, tid) in gone {
                run(index, model, &Step::Delete { key, tid });
            }
        }
        Step::Die { lower, upper, kept } => {
            let range = KeyRange { lower: lower.as_key_bound(), upper: upper.as_key_bound() };
            die(index, model, &range, *kept);
        }
    }
}

fn die(index: &Index, model: &mut Model, range: &KeyRange<'_>, kept: u32) {
    let oracle = TestTable::new(|candidate| candidate.tid.block.0 != kept);
    let mut scan = Scan::default();
    scan.start(index, range, Direction::Forward);
    while scan.next(index).unwrap() {
        let all: Vec<usize> = (0..scan.batch().len()).collect();
        let marked = index.mark_dead(scan.batch(), &all);
        assert!(marked.entries <= all.len(), "lists at the range's ends are marked only whole");
        if marked.whole_leaf {
            let before = oracle.allowed.borrow().len();
            let gone = index.empty_dead_leaf(scan.batch().leaf().unwrap(), &oracle).unwrap();
            assert_eq!(oracle.allowed.borrow().len(), before + gone, "what the table lets go goes");
        }
    }
    for entry in oracle.allowed.take() {
        assert!(range.contains(&entry.0), "the others of the leaf were not marked");
        assert!(model.remove(&entry).is_some(), "{entry:?}");
    }
    for (key, tid) in model.keys().filter(|(key, _)| range.contains(key)) {
        assert_eq!(super::insert(index, key, *tid), EntryOutcome::AlreadyThere);
    }
}

fn vacuum(index: &Index, model: &mut Model, block: u32) {
    let before = model.len();
    let mut decide = |entry: crate::BatchEntry<'_>| {
        if entry.tid.block.0 == block { EntryDecision::Delete } else { EntryDecision::Keep }
    };
    let summary = index.vacuum(&mut decide).unwrap();
    model.retain(|(_, tid), _| tid.block.0 != block);
    assert_eq!(summary.removed, (before - model.len()) as u64);
    assert_eq!(summary.remaining, model.len() as u64);
}

/// Marks entries, which hides them from scans, then inserts them again, which brings them back
/// (rule `dead-marks`). Entries read before that can no longer be marked.
fn mark_and_restore(index: &Index, model: &mut Model, key: &[u8]) {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::equal(key), Direction::Forward);
    if !scan.next(index).unwrap() {
        return;
    }
    // Long keys: all entries; others: every other entry, which covers few posting lists.
    let step = if key.len() > 3 { 1 } else { 2 };
    let chosen: Vec<usize> = (0..scan.batch().len()).step_by(step).collect();
    let entries: Vec<(Vec<u8>, Tid)> =
        scan.batch().iter().map(|entry| (entry.key.to_vec(), entry.tid)).collect();
    let marked = index.mark_dead(scan.batch(), &chosen).entries;
    let visible = scan_all(index, &KeyRange::equal(key), Direction::Forward);
    let is_visible =
        |entry: &(Vec<u8>, Tid)| visible.iter().any(|v| (&v.0, &v.1) == (&entry.0, &entry.1));
    let mut gone = 0;
    for (at, entry) in entries.iter().enumerate() {
        if !is_visible(entry) {
            assert!(chosen.contains(&at), "only what was chosen is marked");
            gone += 1;
        }
    }
    assert_eq!(gone, marked);
    assert!(step == 2 || marked == entries.len(), "whole lists are marked");
    for (key, tid) in &entries {
        assert_eq!(super::insert(index, key, *tid), EntryOutcome::AlreadyThere);
        assert!(model.contains_key(&(key.clone(), *tid)));
    }
    assert_eq!(
        scan_all(index, &KeyRange::equal(key), Direction::Forward).len(),
        visible.len() + gone
    );
    let again = index.mark_dead(scan.batch(), &chosen);
    assert_eq!(again, Marked::default(), "the leaf's version moved");
}

/// Does the steps, and compares the contents at the end.
fn agree(options: IndexOptions, steps: &[Step]) -> IndexStats {
    let index = index(options);
    let mut model = Model::new();
    for step in steps {
        run(&index, &mut model, step);
    }
    let expected: Vec<(Vec<u8>, Tid)> = model.keys().cloned().collect();
    assert_eq!(checked(&index), expected);
    index.stats()
}

/// The generated steps meet the cases that they are meant to meet.
#[test]
fn the_steps_reach_shifts() {
    let mut runner = TestRunner::deterministic();
    let cases = (options(), prop::collection::vec(step(), 1..160));
    let (mut shifts, mut entries) = (0, 0);
    for _ in 0..60 {
        let (options, steps) = cases.new_tree(&mut runner).unwrap().current();
        let stats = agree(options, &steps);
        shifts += stats.leaf_shifts;
        entries += stats.shifted_entries;
    }
    assert!(shifts > 20 && entries > shifts, "{shifts} shifts of {entries} entries");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn index_and_model_agree(
        options in options(),
        steps in prop::collection::vec(step(), 1..160),
    ) {
        agree(options, &steps);
    }

    #[test]
    fn a_build_holds_what_it_was_given(
        options in options(),
        entries in prop::collection::btree_set((key(), tid()), 0..300),
    ) {
        let index = index(options);
        let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
        let mut before: Option<Vec<u8>> = None;
        for (key, tid) in &entries {
            let equal = builder.add(key, b"x", *tid).unwrap();
            prop_assert_eq!(equal, before.as_ref() == Some(key));
            before = Some(key.clone());
        }
        prop_assert_eq!(builder.finish().unwrap(), entries.len() as u64);
        let expected: Vec<(Vec<u8>, Tid)> = entries.iter().cloned().collect();
        prop_assert_eq!(checked(&index), expected);
        let mut model: Model = entries.into_iter().map(|entry| (entry, b"x".to_vec())).collect();
        for number in 0..60u8 {
            let (key, tid) = (vec![number; 3], Tid::new(9, 9));
            let step = Step::Insert { key, payload: vec![], tid, version: false };
            run(&index, &mut model, &step);
        }
        let expected: Vec<(Vec<u8>, Tid)> = model.keys().cloned().collect();
        prop_assert_eq!(checked(&index), expected);
    }
}
