//! Which heap blocks a deletion pass visits, and in which order.
//!
//! Old versions cluster: a row updated again and again leaves its versions on few heap blocks, written
//! one after the other. So blocks are compared by how many *promising* entries lie on them, roughly (in
//! powers of two, so that a chance difference does not outweigh order), then by how many entries at
//! all, then by place. The *favourable* ones are the first of the order as far as each lies near the one
//! before: written together, dead together, and read together. Example, promising entries by block:
//!
//! ```text
//! block       17  18  19  40  90        order   17  19  18 | 90  40        favourable: 17 19 18
//! promising   14   5  10   1   3        rank    16  16   8 |  4   4
//! ```
//!
//! Of a block that is in memory a glance at line pointers and headers tells how many of the leaf's
//! entries lead to something that was replaced or deleted, also those in posting lists: that is what blocks
//! are compared by then, and those without any are passed over. Else, in an index of few keys, blocks full of rows that never change
//! would come first for their many equal keys, and end the pass; so would blocks that gave everything
//! they had to an earlier one.
//!
//! Source: thread 000; design section 6.

use std::cmp::Reverse;
use std::ops::Range;

use niwaki_storage::BlockNumber;

use crate::table::{DeletionCandidate, HeapGlance};

/// Most heap blocks that one pass of bottom-up deletion visits.
pub(crate) const BOTTOM_UP_BLOCKS_MAX: usize = 6;
/// Farthest that a favourable block is from the one before it.
const NEAR_BLOCKS: u32 = 3;
/// So few promising entries say as much as none.
const PROMISING_MIN: usize = 4;

/// At how many blocks a pass glances at most.
const GLANCES_MAX: usize = 32;

/// One heap block, with the candidates on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) block: BlockNumber,
    /// Which candidates.
    pub(crate) candidates: Range<usize>,
}

/// The visits of a pass, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visits {
    pub(crate) list: Vec<Visit>,
    /// How many at the front are favourable.
    pub(crate) favourable: usize,
}

impl Visits {
    /// Every block, in physical order. Candidates are ascending by TID.
    pub(crate) fn all(candidates: &[DeletionCandidate<'_>]) -> Self {
        let mut at = 0;
        let list: Vec<Visit> = candidates
            .chunk_by(|a, b| a.tid.block == b.tid.block)
            .map(|group| {
                at += group.len();
                Visit { block: group[0].tid.block, candidates: at - group.len()..at }
            })
            .collect();
        Self { favourable: list.len(), list }
    }

    /// The few blocks worth a visit when nothing is known to be dead. Candidates are ascending by TID.
    /// Glances end where `wanted` bytes may be hoped for.
    pub(crate) fn promising(
        candidates: &[DeletionCandidate<'_>],
        wanted: usize,
        glance: impl Fn(&[DeletionCandidate<'_>]) -> HeapGlance,
    ) -> Self {
        let Self { mut list, .. } = Self::all(candidates);
        let promising = |visit: &Visit| {
            let on_it = &candidates[visit.candidates.clone()];
            on_it.iter().filter(|candidate| candidate.promising).count()
        };
        list.sort_by_cached_key(|visit| {
            let rank = promising(visit).max(PROMISING_MIN).next_power_of_two();
            (Reverse((rank, visit.candidates.len().next_power_of_two())), visit.block)
        });
        let mut ranked: Vec<(usize, Visit)> = Vec::new();
        let mut hoped = 0;
        for visit in list.into_iter().take(GLANCES_MAX) {
            let on_it = &candidates[visit.candidates.clone()];
            let count = match glance(on_it) {
                HeapGlance::MayBeDead(0) => continue,
                HeapGlance::MayBeDead(count) => count,
                HeapGlance::Absent => promising(&visit),
            };
            // The cheapest of its entries, so many times.
            let bytes = on_it.iter().map(|candidate| usize::from(candidate.bytes)).min();
            hoped += count * bytes.unwrap_or(0);
            ranked.push((count.next_power_of_two(), visit));
            if hoped >= wanted {
                break;
            }
        }
        ranked.sort_by_key(|(rank, visit)| (Reverse(*rank), visit.block));
        let mut list: Vec<Visit> = ranked.into_iter().map(|(_, visit)| visit).collect();
        list.truncate(BOTTOM_UP_BLOCKS_MAX);
        let near = |pair: &&[Visit]| pair[0].block.0.abs_diff(pair[1].block.0) <= NEAR_BLOCKS;
        let favourable = list.len().min(1 + list.windows(2).take_while(near).count());
        Self { list, favourable }
    }
}

#[cfg(test)]
mod tests {
    use niwaki_storage::Tid;

    use super::*;
    use crate::batch::EntryPlace;

    /// Per block: its number, promising entries, others.
    fn candidates(blocks: &[(u32, u16, u16)]) -> Vec<DeletionCandidate<'static>> {
        let mut all = Vec::new();
        for &(block, promising, others) in blocks {
            all.extend((0..promising + others).map(|n| DeletionCandidate {
                key: &[],
                tid: Tid::new(block, n + 1),
                known_dead: false,
                promising: n < promising,
                bytes: 16,
                deletable: false,
                at: EntryPlace { offset: 0, place: 0 },
            }));
        }
        all
    }

    fn order(blocks: &[(u32, u16, u16)]) -> (Vec<u32>, usize) {
        let visits = Visits::promising(&candidates(blocks), usize::MAX, |_| HeapGlance::Absent);
        (visits.list.iter().map(|visit| visit.block.0).collect(), visits.favourable)
    }

    #[test]
    fn the_example_of_the_module() {
        let blocks = [(17, 14, 0), (18, 5, 0), (19, 10, 0), (40, 1, 0), (90, 3, 0)];
        assert_eq!(order(&blocks), (vec![17, 19, 18, 90, 40], 3));
    }

    #[test]
    fn place_decides_between_blocks_that_promise_alike() {
        assert_eq!(order(&[(5, 1, 3), (9, 4, 0), (12, 3, 6)]).0, [9, 12, 5]);
        assert_eq!(order(&[(30, 8, 0), (10, 7, 0), (20, 5, 2)]).0, [10, 20, 30]);
    }

    #[test]
    fn few_blocks_are_visited_however_many_there_are() {
        let blocks: Vec<_> = (0..100).map(|block| (block * 2, 1, 0)).collect();
        assert_eq!(order(&blocks), (vec![0, 2, 4, 6, 8, 10], 6));
        let apart: Vec<_> = (0..100).map(|block| (block * 4, 1, 0)).collect();
        assert_eq!(order(&apart).1, 1);
        assert_eq!(order(&[]), (vec![], 0));
    }

    #[test]
    fn blocks_on_which_nothing_can_be_dead_are_passed_over() {
        let blocks: Vec<_> = (0..100).map(|block| (block, 8, 0)).collect();
        let all = candidates(&blocks);
        let seen = |dead: fn(u32) -> usize| -> Vec<u32> {
            let visits = Visits::promising(&all, usize::MAX, |on_block| {
                HeapGlance::MayBeDead(dead(on_block[0].tid.block.0))
            });
            visits.list.iter().map(|visit| visit.block.0).collect()
        };
        assert_eq!(seen(|block| (block % 2) as usize), [1, 3, 5, 7, 9, 11]);
        assert_eq!(seen(|block| if block == 20 { 5 } else { (block == 3).into() }), [20, 3]);
        assert_eq!(seen(|_| 0), []);
        let enough = Visits::promising(&all, 5 * 16, |_| HeapGlance::MayBeDead(2));
        assert_eq!(enough.list.len(), 3, "no glance more than is needed");
        assert_eq!(seen(|block| (block >= 31).into()), [31], "glances have an end");
    }

    #[test]
    fn each_visit_names_its_own_candidates() {
        let all = candidates(&[(3, 2, 1), (4, 1, 0), (9, 0, 5)]);
        let promising = Visits::promising(&all, usize::MAX, |_| HeapGlance::Absent);
        for visits in [Visits::all(&all), promising] {
            let mut covered = 0;
            for visit in &visits.list {
                let on_it = &all[visit.candidates.clone()];
                assert!(on_it.iter().all(|candidate| candidate.tid.block == visit.block));
                covered += on_it.len();
            }
            assert_eq!(covered, all.len());
        }
    }
}
