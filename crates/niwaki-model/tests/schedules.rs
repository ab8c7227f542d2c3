//! Tests of the model: with all rules nothing breaks, and without any one of them its scenario
//! breaks. The README's table must match.
//!
//! `NIWAKI_MODEL_SCHEDULES` sets how many schedules of the mixture run (20,000). Each story runs a
//! fiftieth of that number.

use niwaki_model::scenarios::{MIXTURE, STORIES};
use niwaki_model::{Invariant, Report, Rule, Rules, explore, replay};

fn schedules() -> u64 {
    let text = std::env::var("NIWAKI_MODEL_SCHEDULES").ok();
    text.map_or(20_000, |text| text.parse().expect("NIWAKI_MODEL_SCHEDULES is a number"))
}

fn nothing_broken(name: &str, report: &Report) {
    if let Some(failure) = &report.failure {
        panic!(
            "{}\nagain: cargo run -p niwaki-model -- --scenario {name} --seed {} --schedules 1 --trace",
            failure.violation, failure.seed
        );
    }
    assert_eq!(report.unfinished, 0, "{name}: schedules that do not end");
}

#[test]
fn the_mixture_holds_with_all_rules() {
    let report = explore(&MIXTURE, Rules::ALL, 0..schedules());
    nothing_broken(MIXTURE.name, &report);
    // A model in which an event never happens proves nothing about it.
    for (what, count) in report.events.all() {
        assert!(count > 0, "no {what} in {} schedules", report.schedules);
    }
}

#[test]
fn every_story_holds_with_all_rules() {
    for story in STORIES {
        let report = explore(&story.scenario, Rules::ALL, 0..schedules().div_ceil(50));
        nothing_broken(story.scenario.name, &report);
    }
}

/// The stories of today's protocol hold with early release, too.
#[test]
fn every_story_holds_with_early_release() {
    for story in STORIES {
        let scenario = story.scenario.with_early_release();
        let report = explore(&scenario, Rules::ALL, 0..schedules().div_ceil(50));
        nothing_broken(scenario.name, &report);
    }
}

#[test]
fn no_rule_can_be_left_out() {
    for story in STORIES {
        let report = explore(&story.scenario, Rules::ALL.without(story.rule), 0..story.schedules);
        let (name, schedules) = (story.scenario.name, story.schedules);
        let Some(failure) = report.failure else {
            panic!("nothing broke without {name} in {schedules} schedules");
        };
        // A mutual wait of actors would be a fault of the switch, not a lost row.
        assert_ne!(
            failure.violation.invariant,
            Invariant::Progress,
            "{name}: {}",
            failure.violation
        );
    }
}

/// The mixture also breaks without rules that need no special moment.
#[test]
fn the_mixture_breaks_without_rules() {
    for rule in [Rule::NoDuplicates, Rule::EndPublished, Rule::CompleteRecord, Rule::LocksCarried] {
        let report = explore(&MIXTURE, Rules::ALL.without(rule), 0..16_000);
        assert!(report.failure.is_some(), "the mixture holds without {}", rule.name());
    }
}

#[test]
fn a_seed_plays_the_same_again() {
    let rules = Rules::ALL.without(Rule::NoDuplicates);
    let failure = explore(&MIXTURE, rules, 0..1_000).failure.expect("breaks");
    let trace = replay(&MIXTURE, rules, failure.seed);
    let last = trace.last().expect("a trace");
    assert!(last.ends_with(&format!("VIOLATION {}", failure.violation)), "{last}");
    assert_eq!(trace, replay(&MIXTURE, rules, failure.seed));
}

/// The README's table has a row for each rule, with its name, source and story.
#[test]
fn the_readme_names_every_rule() {
    assert_eq!(STORIES.len(), Rule::ALL.len());
    let readme = include_str!("../README.md");
    for (story, rule) in STORIES.iter().zip(Rule::ALL) {
        assert_eq!(story.rule, *rule);
        let row = format!("| `{}` | {} | {} |", rule.name(), rule.source(), story.scenario.about);
        assert!(readme.contains(&row), "the README's table lacks\n{row}");
    }
}
