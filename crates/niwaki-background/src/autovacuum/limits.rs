//! Settings of autovacuum and the options of tables that override them.

use std::time::Duration;

use niwaki_catalog::RelationOptions;
use niwaki_sql::settings::Settings;

use crate::autovacuum::need::Limits;

/// Settings of autovacuum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AutovacuumSettings {
    /// `autovacuum_naptime`
    pub(super) naptime: Duration,
    /// `autovacuum_max_workers`
    pub(super) workers_max: usize,
    limits: Limits,
    /// `log_autovacuum_min_duration`
    log_min: Option<Duration>,
}

impl AutovacuumSettings {
    /// Reads the settings of a database.
    pub(crate) fn new(settings: &Settings) -> Self {
        let count = |name| settings.int(name) as f64;
        let naptime = u64::try_from(settings.int("autovacuum_naptime")).unwrap_or(60);
        Self {
            naptime: Duration::from_secs(naptime),
            workers_max: workers_max(settings),
            limits: Limits {
                enabled: true,
                vacuum_threshold: count("autovacuum_vacuum_threshold"),
                vacuum_scale: settings.float("autovacuum_vacuum_scale_factor"),
                vacuum_max: not_negative(count("autovacuum_vacuum_max_threshold")),
                insert_threshold: not_negative(count("autovacuum_vacuum_insert_threshold")),
                insert_scale: settings.float("autovacuum_vacuum_insert_scale_factor"),
                analyze_threshold: count("autovacuum_analyze_threshold"),
                analyze_scale: settings.float("autovacuum_analyze_scale_factor"),
            },
            log_min: duration(settings.int("log_autovacuum_min_duration")),
        }
    }

    /// Returns the limits at which a table with these options is vacuumed and analyzed.
    pub(super) fn limits(&self, options: &RelationOptions) -> Limits {
        // The options were checked when they were set.
        let number = |name: &str| options.get(name).and_then(|text| text.parse::<f64>().ok());
        let own = |name: &str, default: f64| number(name).unwrap_or(default);
        let optional = |name: &str, default: Option<f64>| match number(name) {
            Some(number) => not_negative(number),
            None => default,
        };
        let all = &self.limits;
        Limits {
            enabled: all.enabled && options.switch("autovacuum_enabled") != Some(false),
            vacuum_threshold: own("autovacuum_vacuum_threshold", all.vacuum_threshold),
            vacuum_scale: own("autovacuum_vacuum_scale_factor", all.vacuum_scale),
            vacuum_max: optional("autovacuum_vacuum_max_threshold", all.vacuum_max),
            insert_threshold: optional("autovacuum_vacuum_insert_threshold", all.insert_threshold),
            insert_scale: own("autovacuum_vacuum_insert_scale_factor", all.insert_scale),
            analyze_threshold: own("autovacuum_analyze_threshold", all.analyze_threshold),
            analyze_scale: own("autovacuum_analyze_scale_factor", all.analyze_scale),
        }
    }

    /// Returns the least duration of work on a table with these options that is logged. `None`: no
    /// logging.
    pub(super) fn log_min(&self, options: &RelationOptions) -> Option<Duration> {
        match options.get("log_autovacuum_min_duration").and_then(|text| text.parse().ok()) {
            Some(milliseconds) => duration(milliseconds),
            None => self.log_min,
        }
    }
}

/// Returns `autovacuum_max_workers`. Each worker needs a session.
pub fn workers_max(settings: &Settings) -> usize {
    usize::try_from(settings.int("autovacuum_max_workers")).unwrap_or(1)
}

/// Returns `None` for -1, which turns a limit off.
fn not_negative(number: f64) -> Option<f64> {
    (number >= 0.0).then_some(number)
}

fn duration(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> RelationOptions {
        let mut options = RelationOptions::default();
        given.iter().for_each(|(name, value)| options.set(name, value));
        options
    }

    #[test]
    fn a_table_says_otherwise() {
        let mut settings = Settings::new();
        settings.set_at_start("autovacuum_vacuum_max_threshold", "-1", true).unwrap();
        settings.set_at_start("autovacuum_naptime", "5min", true).unwrap();
        let settings = AutovacuumSettings::new(&settings);
        assert_eq!((settings.naptime, settings.workers_max), (Duration::from_mins(5), 3));
        let defaults = Limits {
            enabled: true,
            vacuum_threshold: 50.0,
            vacuum_scale: 0.2,
            vacuum_max: None,
            insert_threshold: Some(1000.0),
            insert_scale: 0.2,
            analyze_threshold: 50.0,
            analyze_scale: 0.1,
        };
        assert_eq!(settings.limits(&options(&[("fillfactor", "70")])), defaults);
        let all = options(&[
            ("autovacuum_enabled", "off"),
            ("autovacuum_vacuum_threshold", "1"),
            ("autovacuum_vacuum_scale_factor", "0.5"),
            ("autovacuum_vacuum_max_threshold", "7"),
            ("autovacuum_vacuum_insert_threshold", "-1"),
            ("autovacuum_vacuum_insert_scale_factor", "0"),
            ("autovacuum_analyze_threshold", "2"),
            ("autovacuum_analyze_scale_factor", "1e-3"),
            ("log_autovacuum_min_duration", "0"),
        ]);
        let own = Limits {
            enabled: false,
            vacuum_threshold: 1.0,
            vacuum_scale: 0.5,
            vacuum_max: Some(7.0),
            insert_threshold: None,
            insert_scale: 0.0,
            analyze_threshold: 2.0,
            analyze_scale: 0.001,
        };
        assert_eq!(settings.limits(&all), own);
        assert_eq!(settings.log_min(&all), Some(Duration::ZERO));
        assert_eq!(settings.log_min(&options(&[])), Some(Duration::from_mins(10)));
        let never = options(&[("log_autovacuum_min_duration", "-1")]);
        assert_eq!(settings.log_min(&never), None);
    }
}
