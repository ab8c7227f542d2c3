//! Decides by a table's numbers whether it needs VACUUM or ANALYZE.
//!
//! ```text
//!  VACUUM    dead versions that no snapshot needs  > threshold + scale factor × rows,
//!                                                    but at most the max threshold
//!            rows inserted since the last VACUUM   > insert threshold
//!                                                    + insert scale factor × rows on hidden pages
//!            rows on hidden pages                  > as for dead versions;
//!                                                    only if not vacuumed since the start
//!  ANALYZE   rows changed since the last ANALYZE   > threshold + scale factor × rows
//!            rows by which the size differs        > the same;
//!                                                    only if not analyzed since the start
//!            never analyzed, and not tiny
//! ```
//!
//! A page is hidden when its bit in the visibility map, which means all-visible, is not set.
//! Changes are counted in memory only, so the counters miss all changes before a start. The
//! visibility map and the size, which are durable, then decide instead. The VACUUM that they lead
//! to makes the counters valid again, so they do not lead to another.
//!
//! The rules are PostgreSQL's otherwise, with hidden pages in the place of unfrozen pages.
//! PostgreSQL must freeze old rows; Niwaki only makes pages all-visible.

/// Assumed number of rows per page, when the rows were never counted.
const ROWS_PER_PAGE: f64 = 10.0;
/// Least size, in pages, at which a table without statistics gets them although no growth was seen.
/// A plan for one page does not need statistics.
const UNKNOWN_PAGES_MIN: u32 = 2;

/// Limits at which a table is vacuumed and analyzed, from the settings or its own options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// `autovacuum_enabled`
    pub(super) enabled: bool,
    /// `autovacuum_vacuum_threshold`, versions.
    pub(super) vacuum_threshold: f64,
    /// `autovacuum_vacuum_scale_factor`, a share of the rows.
    pub(super) vacuum_scale: f64,
    /// `autovacuum_vacuum_max_threshold`, versions.
    pub(super) vacuum_max: Option<f64>,
    /// `autovacuum_vacuum_insert_threshold`, rows; `None`: insertions alone never lead to a VACUUM.
    pub(super) insert_threshold: Option<f64>,
    /// `autovacuum_vacuum_insert_scale_factor`, a share of the rows on hidden pages.
    pub(super) insert_scale: f64,
    /// `autovacuum_analyze_threshold`, rows.
    pub(super) analyze_threshold: f64,
    /// `autovacuum_analyze_scale_factor`, a share of the rows.
    pub(super) analyze_scale: f64,
}

/// State of a table on which the decision rests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Numbers {
    /// Rows at the last count; `None`: never counted.
    pub(super) rows: Option<f64>,
    /// Pages at that count.
    pub(super) pages_then: u32,
    /// True when the catalog has statistics of the table's columns.
    pub(super) has_statistics: bool,
    /// Pages now.
    pub(super) pages: u32,
    /// Pages that the visibility map does not mark as all-visible; `None`: there is no map.
    pub(super) hidden_pages: Option<u32>,
    /// Versions that have ended and are still stored.
    pub(super) dead: u64,
    /// Number of these that no VACUUM could remove, because open snapshots need them.
    pub(super) held: u64,
    /// Rows inserted since the last VACUUM, or since the start.
    pub(super) inserted: u64,
    /// Rows inserted, updated and deleted since the last ANALYZE, or since the start.
    pub(super) modified: u64,
    /// True when the table was vacuumed since the start.
    pub(super) vacuumed: bool,
    /// True when the table was analyzed since the start.
    pub(super) analyzed: bool,
}

/// Needs of a table with their urgencies: value divided by threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Need {
    pub(super) vacuum: Option<f64>,
    pub(super) analyze: Option<f64>,
}

impl Need {
    /// Decides whether the table needs anything.
    pub(super) fn is_any(&self) -> bool {
        self.vacuum.is_some() || self.analyze.is_some()
    }

    /// Returns the greater urgency of the two needs.
    pub(super) fn urgency(&self) -> f64 {
        self.vacuum.unwrap_or(0.0).max(self.analyze.unwrap_or(0.0))
    }
}

/// Decides whether a table needs VACUUM and ANALYZE.
pub(super) fn need(numbers: &Numbers, limits: &Limits) -> Need {
    if !limits.enabled {
        return Need::default();
    }
    Need { vacuum: vacuum(numbers, limits), analyze: analyze(numbers, limits) }
}

fn vacuum(numbers: &Numbers, limits: &Limits) -> Option<f64> {
    let rows = numbers.rows.unwrap_or(0.0);
    let threshold = limits.vacuum_threshold + limits.vacuum_scale * rows;
    let threshold = limits.vacuum_max.map_or(threshold, |max| threshold.min(max));
    let dead = exceeds(numbers.dead.saturating_sub(numbers.held) as f64, threshold);
    let Some(hidden) = numbers.hidden_pages.filter(|hidden| *hidden > 0) else { return dead };
    let by_map = if numbers.vacuumed {
        None
    } else {
        exceeds(f64::from(hidden) * rows_per_page(numbers), threshold)
    };
    let inserted = limits.insert_threshold.and_then(|threshold| {
        let share = f64::from(hidden) / f64::from(numbers.pages.max(1));
        let threshold = threshold + limits.insert_scale * rows * share.min(1.0);
        exceeds(numbers.inserted as f64, threshold)
    });
    [dead, by_map, inserted].into_iter().flatten().reduce(f64::max)
}

fn analyze(numbers: &Numbers, limits: &Limits) -> Option<f64> {
    let threshold = limits.analyze_threshold + limits.analyze_scale * numbers.rows.unwrap_or(0.0);
    let by_size = if numbers.analyzed {
        0.0
    } else {
        let pages = numbers.pages.abs_diff(numbers.pages_then);
        f64::from(pages) * rows_per_page(numbers)
    };
    let changed = exceeds((numbers.modified as f64).max(by_size), threshold);
    let never = !numbers.has_statistics && numbers.pages >= UNKNOWN_PAGES_MIN;
    changed.or(never.then_some(1.0))
}

/// Returns the average rows per page at the last count.
fn rows_per_page(numbers: &Numbers) -> f64 {
    match (numbers.rows, numbers.pages_then) {
        (Some(rows), pages) if rows > 0.0 && pages > 0 => rows / f64::from(pages),
        _ => ROWS_PER_PAGE,
    }
}

/// Returns the value divided by the threshold, if the value exceeds the threshold.
fn exceeds(value: f64, threshold: f64) -> Option<f64> {
    (value > threshold).then(|| value / threshold.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Limits = Limits {
        enabled: true,
        vacuum_threshold: 50.0,
        vacuum_scale: 0.2,
        vacuum_max: Some(100e6),
        insert_threshold: Some(1000.0),
        insert_scale: 0.2,
        analyze_threshold: 50.0,
        analyze_scale: 0.1,
    };

    /// A table of 10,000 rows on 100 all-visible pages, unchanged since its VACUUM and ANALYZE.
    const AT_REST: Numbers = Numbers {
        rows: Some(10_000.0),
        pages_then: 100,
        has_statistics: true,
        pages: 100,
        hidden_pages: Some(0),
        dead: 0,
        held: 0,
        inserted: 0,
        modified: 0,
        vacuumed: true,
        analyzed: true,
    };

    fn vacuums(numbers: Numbers) -> bool {
        need(&numbers, &DEFAULTS).vacuum.is_some()
    }

    fn analyzes(numbers: Numbers) -> bool {
        need(&numbers, &DEFAULTS).analyze.is_some()
    }

    #[test]
    fn a_table_at_rest_needs_nothing() {
        assert_eq!(need(&AT_REST, &DEFAULTS), Need::default());
        assert_eq!(need(&Numbers::default(), &DEFAULTS), Need::default(), "empty, and new");
        for (vacuumed, analyzed) in [(false, false), (false, true), (true, false)] {
            let after_a_start = Numbers { vacuumed, analyzed, ..AT_REST };
            assert_eq!(need(&after_a_start, &DEFAULTS), Need::default());
        }
    }

    #[test]
    fn dead_versions_count_from_the_threshold_on() {
        // 50 + 0.2 × 10,000
        assert!(!vacuums(Numbers { dead: 2050, ..AT_REST }));
        assert!(vacuums(Numbers { dead: 2051, ..AT_REST }));
        assert!(!vacuums(Numbers { dead: 50, rows: None, ..AT_REST }));
        assert!(vacuums(Numbers { dead: 51, rows: None, ..AT_REST }));
        let large = Numbers { rows: Some(1e9), dead: 100_000_001, ..AT_REST };
        assert!(vacuums(large), "the cap");
        let uncapped = Limits { vacuum_max: None, ..DEFAULTS };
        assert_eq!(need(&large, &uncapped).vacuum, None);
        let none = Limits { vacuum_threshold: 0.0, vacuum_scale: 0.0, ..DEFAULTS };
        assert_eq!(need(&AT_REST, &none).vacuum, None, "none is not more than none");
        assert_eq!(need(&Numbers { dead: 3, ..AT_REST }, &none).vacuum, Some(3.0));
    }

    #[test]
    fn what_snapshots_keep_is_no_reason() {
        assert!(!vacuums(Numbers { dead: 9000, held: 9000, ..AT_REST }));
        assert!(!vacuums(Numbers { dead: 9000, held: 10_000, ..AT_REST }));
        assert!(!vacuums(Numbers { dead: 9000, held: 6950, ..AT_REST }));
        assert!(vacuums(Numbers { dead: 9000, held: 6949, ..AT_REST }), "as many more have come");
    }

    #[test]
    fn insertions_count_while_pages_are_hidden() {
        // All pages hidden: 1000 + 0.2 × 10,000; a tenth: 1000 + 0.2 × 1,000.
        let inserted = |inserted, hidden| Numbers { inserted, hidden_pages: hidden, ..AT_REST };
        assert!(!vacuums(inserted(3000, Some(100))));
        assert!(vacuums(inserted(3001, Some(100))));
        assert!(!vacuums(inserted(1200, Some(10))));
        assert!(vacuums(inserted(1201, Some(10))));
        assert!(vacuums(inserted(3001, Some(1000))), "no share is greater than all");
        assert!(!vacuums(inserted(1_000_000, Some(0))), "the gardener was there before");
        assert!(!vacuums(inserted(1_000_000, None)), "without a map it would do nothing");
        let off = Limits { insert_threshold: None, ..DEFAULTS };
        assert_eq!(need(&inserted(1_000_000, Some(100)), &off).vacuum, None);
    }

    #[test]
    fn after_a_start_the_map_tells() {
        let hidden = |pages| Numbers { hidden_pages: Some(pages), vacuumed: false, ..AT_REST };
        // 100 rows a page: 20 pages are 2,000 rows.
        assert!(!vacuums(hidden(20)));
        assert!(vacuums(hidden(21)));
        assert!(!vacuums(Numbers { vacuumed: true, ..hidden(100) }), "the counters do");
        assert!(vacuums(Numbers { rows: None, pages_then: 0, ..hidden(100) }), "never counted");
        assert!(vacuums(Numbers { rows: Some(0.0), ..hidden(100) }), "empty when counted");
        assert!(!vacuums(Numbers { hidden_pages: None, ..hidden(0) }));
    }

    #[test]
    fn changes_count_for_statistics() {
        // 50 + 0.1 × 10,000
        assert!(!analyzes(Numbers { modified: 1050, ..AT_REST }));
        assert!(analyzes(Numbers { modified: 1051, ..AT_REST }));
        let new = Numbers { modified: 50, pages: 1, ..Numbers::default() };
        assert!(!analyzes(new));
        assert!(analyzes(Numbers { modified: 51, ..new }));
    }

    #[test]
    fn after_a_start_the_size_tells() {
        let pages = |pages| Numbers { pages, analyzed: false, ..AT_REST };
        // 100 rows a page: 10 pages are 1,000 rows.
        assert!(!analyzes(pages(110)));
        assert!(analyzes(pages(111)));
        assert!(!analyzes(pages(90)));
        assert!(analyzes(pages(89)), "truncated");
        assert!(!analyzes(Numbers { analyzed: true, ..pages(500) }), "the counters do");
        let grown = Numbers { rows: Some(0.0), pages_then: 0, ..pages(6) };
        assert!(analyzes(grown), "empty when analyzed");
    }

    #[test]
    fn a_table_without_statistics_gets_them() {
        let never = |pages| Numbers { has_statistics: false, pages_then: pages, pages, ..AT_REST };
        assert!(!analyzes(never(0)));
        assert!(!analyzes(never(1)));
        assert_eq!(need(&never(2), &DEFAULTS).analyze, Some(1.0));
        let urgent = Numbers { modified: 10_500, ..never(2) };
        assert_eq!(need(&urgent, &DEFAULTS).analyze, Some(10.0));
    }

    #[test]
    fn a_table_that_is_left_alone_needs_nothing() {
        let off = Limits { enabled: false, ..DEFAULTS };
        let worst = Numbers { dead: u64::MAX, inserted: u64::MAX, modified: u64::MAX, ..AT_REST };
        assert_eq!(need(&worst, &off), Need::default());
        assert!(need(&worst, &DEFAULTS).urgency() > 1e9);
    }

    /// Tests all combinations of a few values: more garbage never makes a need smaller, and
    /// finished work leaves no need.
    #[test]
    fn more_is_never_less_and_done_is_done() {
        let counts = [0, 40, 2_000, 1_000_000];
        let pages = [0, 1, 31, 100, 5_000];
        for rows in [None, Some(0.0), Some(10_000.0), Some(1e9)] {
            for (pages_then, now) in pages.iter().flat_map(|then| pages.map(|now| (*then, now))) {
                for bits in 0..8_u8 {
                    let flag = |bit: u8| bits & (1 << bit) != 0;
                    let table = Numbers {
                        rows,
                        pages_then,
                        pages: now,
                        hidden_pages: (now >= 32).then_some(now / 2),
                        has_statistics: flag(0),
                        vacuumed: flag(1),
                        analyzed: flag(2),
                        ..Numbers::default()
                    };
                    let mut last = Need::default();
                    for count in counts {
                        let changed =
                            Numbers { dead: count, inserted: count, modified: count, ..table };
                        let found = need(&changed, &DEFAULTS);
                        assert!(found.vacuum >= last.vacuum, "{changed:?}");
                        assert!(found.analyze >= last.analyze, "{changed:?}");
                        assert!(found.urgency() >= 1.0 || !found.is_any(), "{changed:?}");
                        last = found;
                    }
                    let done = Numbers {
                        pages_then: now,
                        hidden_pages: table.hidden_pages.map(|_| 0),
                        has_statistics: true,
                        vacuumed: true,
                        analyzed: true,
                        ..table
                    };
                    assert_eq!(need(&done, &DEFAULTS), Need::default(), "{done:?}");
                    // Even if the VACUUM made no page all-visible, one VACUUM is enough.
                    let in_vain = Numbers { hidden_pages: table.hidden_pages, ..done };
                    assert_eq!(need(&in_vain, &DEFAULTS), Need::default(), "{in_vain:?}");
                }
            }
        }
    }
}
