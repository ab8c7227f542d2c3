//! A command line that explores schedules of the model; see the crate's README.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use niwaki_model::scenarios::{MIXTURE, STORIES, Scenario};
use niwaki_model::{Report, Rule, Rules, explore, replay};

const USAGE: &str =
    "usage: niwaki-model [--rule NAME] [--scenario NAME] [--schedules N] [--seed S] [--trace]
  --rule NAME       without this rule; its own scenario unless another is named
  --scenario NAME   `mixture`, or the name of a rule; otherwise all of them
  --schedules N     how many of each (1000)
  --seed S          the first one (0)
  --trace           tell the one that fails, or the first if none does
  --list            the rules";

struct Options {
    rule: Option<Rule>,
    scenario: Option<Scenario>,
    schedules: u64,
    seed: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for rule in Rule::ALL {
            println!("{:<26}{:<21}{}", rule.name(), rule.source(), rule.text());
        }
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(arguments.into_iter()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let rules = options.rule.map_or(Rules::ALL, |rule| Rules::ALL.without(rule));
    let own = options.rule.and_then(|rule| scenario(rule.name()));
    let scenarios = match options.scenario.or(own) {
        Some(scenario) => vec![scenario],
        None => STORIES.iter().map(|story| story.scenario).chain([MIXTURE]).collect(),
    };
    let mut failed = false;
    for scenario in scenarios {
        let seeds = options.seed..options.seed.saturating_add(options.schedules);
        let report = explore(&scenario, rules, seeds);
        show(&scenario, &report);
        failed |= report.failure.is_some();
        if options.trace {
            let seed = report.failure.as_ref().map_or(options.seed, |failure| failure.seed);
            for line in replay(&scenario, rules, seed) {
                println!("  {line}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options =
        Options { rule: None, scenario: None, schedules: 1000, seed: 0, trace: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rule" => {
                let name = arguments.next()?;
                options.rule = Some(*Rule::ALL.iter().find(|rule| rule.name() == name)?);
            }
            "--scenario" => options.scenario = Some(scenario(&arguments.next()?)?),
            "--schedules" => options.schedules = arguments.next()?.parse().ok()?,
            "--seed" => options.seed = arguments.next()?.parse().ok()?,
            "--trace" => options.trace = true,
            _ => return None,
        }
    }
    Some(options)
}

fn scenario(name: &str) -> Option<Scenario> {
    let stories = STORIES.iter().map(|story| story.scenario);
    stories.chain([MIXTURE]).find(|scenario| scenario.name == name)
}

fn show(scenario: &Scenario, report: &Report) {
    let Report { schedules, steps, unfinished, .. } = report;
    println!("{:<26}{schedules} schedules, {steps} steps, {unfinished} unfinished", scenario.name);
    if scenario.name == MIXTURE.name {
        for (what, count) in report.events.all() {
            println!("{count:>12} {what}");
        }
    }
    if let Some(failure) = &report.failure {
        println!("{:<26}seed {}: {}", "", failure.seed, failure.violation);
    }
}
