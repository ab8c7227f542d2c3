//! Compares the table of settings with `docs/guide/settings.md`, which is made from the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::value::unit_word;
use super::{Context, Kind, SETTINGS, SettingDefinition, Unit, Value};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/settings.md");

/// Settings that a user can change and that have an effect, by purpose. A group's names are in the
/// order in which the page lists them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Connections and timeouts",
        &[
            "max_connections",
            "authentication_timeout",
            "application_name",
            "statement_timeout",
            "lock_timeout",
            "deadlock_timeout",
            "idle_in_transaction_session_timeout",
            "idle_session_timeout",
        ],
    ),
    (
        "Memory and temporary files",
        &[
            "shared_buffers",
            "max_server_memory",
            "work_mem",
            "hash_mem_multiplier",
            "maintenance_work_mem",
            "temp_file_limit",
            "max_row_locks",
        ],
    ),
    (
        "Log and checkpoints",
        &[
            "synchronous_commit",
            "max_wal_size",
            "checkpoint_timeout",
            "checkpoint_completion_target",
            "wal_buffers",
            "full_page_writes",
            "bgwriter_delay",
            "bgwriter_lru_maxpages",
            "bgwriter_lru_multiplier",
        ],
    ),
    (
        "Reading ahead, threads and files",
        &[
            "io_method",
            "io_workers",
            "io_combine_limit",
            "effective_io_concurrency",
            "maintenance_io_concurrency",
            "max_parallel_workers",
            "max_parallel_workers_per_gather",
            "max_parallel_maintenance_workers",
            "min_parallel_table_scan_size",
            "max_files_per_process",
        ],
    ),
    (
        "Clean-up: gardener, vacuum, autovacuum",
        &[
            "gardener",
            "interval_gc",
            "version_split_delay",
            "visibility_map_pin",
            "autovacuum",
            "autovacuum_naptime",
            "autovacuum_max_workers",
            "autovacuum_work_mem",
            "autovacuum_vacuum_threshold",
            "autovacuum_vacuum_scale_factor",
            "autovacuum_vacuum_max_threshold",
            "autovacuum_vacuum_insert_threshold",
            "autovacuum_vacuum_insert_scale_factor",
            "autovacuum_analyze_threshold",
            "autovacuum_analyze_scale_factor",
            "autovacuum_vacuum_cost_delay",
            "autovacuum_vacuum_cost_limit",
            "log_autovacuum_min_duration",
            "vacuum_buffer_usage_limit",
            "vacuum_cost_delay",
            "vacuum_cost_limit",
            "vacuum_cost_page_hit",
            "vacuum_cost_page_miss",
            "vacuum_cost_page_dirty",
            "vacuum_freeze_min_age",
            "vacuum_truncate",
        ],
    ),
    (
        "Transactions",
        &[
            "default_transaction_isolation",
            "default_transaction_read_only",
            "default_transaction_deferrable",
            "transaction_isolation",
            "transaction_read_only",
            "transaction_deferrable",
        ],
    ),
    (
        "What a client sends and sees",
        &[
            "search_path",
            "client_encoding",
            "client_min_messages",
            "TimeZone",
            "DateStyle",
            "IntervalStyle",
            "bytea_output",
            "extra_float_digits",
            "standard_conforming_strings",
            "role",
            "session_authorization",
        ],
    ),
    (
        "Planner",
        &[
            "plan_cache_mode",
            "effective_cache_size",
            "seq_page_cost",
            "random_page_cost",
            "cpu_tuple_cost",
            "cpu_index_tuple_cost",
            "cpu_operator_cost",
            "enable_seqscan",
            "enable_indexscan",
            "enable_indexonlyscan",
            "enable_bitmapscan",
            "enable_skipscan",
            "enable_tidscan",
            "enable_nestloop",
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_hashagg",
            "enable_incremental_sort",
        ],
    ),
];

const HEAD: &str = "\
# Settings

Made from the table of settings in `niwaki-settings` by `cargo xtask settings`; a test holds this
page up to date. `show all` and the view `pg_settings` show the same settings with their values.

The column *change* says when a new value takes effect:

- *start*: at the next start of the server, by `niwaki serve --set NAME=VALUE`.
- *session start*: when a client connects, by the `options` of a connection string.
- *any time*: at once. `set` changes the session, and `set local` changes the transaction. A
  rollback brings the earlier value back. `alter database … set` and `--set` give later sessions
  their first value.
- *never*: the setting is shown only. A change is refused (55P02).

There is no configuration file, and no setting changes by a reload. ALTER SYSTEM and ALTER ROLE …
SET are refused.

A number without a unit is in the unit of its row. Units of memory are B, kB, MB, GB and TB. Units
of time are us, ms, s, min, h and d. A value outside its range is refused (22023). So is a name that
Niwaki does not know (42704), unless the name has a dot, as in `app.tenant`: a session keeps the
text of such a setting.

Some values of PostgreSQL are refused by name (0A000): the isolation level SERIALIZABLE,
`standard_conforming_strings = off`, `session_replication_role = replica`, encodings other than
UTF8, `default_with_oids = on`, and PostgreSQL's predefined roles as `role` or
`session_authorization`.
";

/// Introduces the settings that no client and no start can change.
const FIXED: &str = "\
## Shown only

Clients ask for these settings. No client and no start can change them. `port` follows `--listen`.
";

/// Introduces the settings of [`has_no_effect`].
const WITHOUT_EFFECT: &str = "\
## Names of PostgreSQL without effect

Niwaki accepts, checks and shows these settings, so that clients and dumps work. They change nothing
else.
";

fn has_no_effect(definition: &SettingDefinition) -> bool {
    definition.description.starts_with("Accepted for compatibility")
}

fn is_fixed(definition: &SettingDefinition) -> bool {
    matches!(definition.context, Context::Internal | Context::FixedAtStart | Context::FixedInFile)
}

/// Returns a value in a code span; a word for the empty text.
fn code(value: &str) -> String {
    if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") }
}

/// Appends a table with a line for each of `settings`.
fn list<'s>(out: &mut String, settings: impl Iterator<Item = &'s SettingDefinition>) {
    out.push_str("\n| name | type | unit | default | range | change | what it does |\n");
    out.push_str("|---|---|---|---|---|---|---|\n");
    for definition in settings {
        let shown = |value: Value| code(&value.show(definition));
        let (kind, unit, range) = match definition.kind {
            Kind::Bool(_) => ("switch", Unit::None, "`on`, `off`".to_owned()),
            Kind::Int { unit, min, max, .. } => {
                let range = format!("{} to {}", shown(Value::Int(min)), shown(Value::Int(max)));
                ("integer", unit, range)
            }
            Kind::Float { unit, min, max, .. } => {
                let least = shown(Value::Float(min));
                let range = if max < f64::MAX {
                    format!("{least} to {}", shown(Value::Float(max)))
                } else {
                    format!("{least} or more")
                };
                ("number", unit, range)
            }
            Kind::Enum(words) => {
                let words: Vec<String> = words.iter().map(|word| code(word)).collect();
                ("word", Unit::None, words.join(", "))
            }
            Kind::Text(_) => ("text", Unit::None, String::new()),
        };
        let change = match definition.context {
            Context::Internal | Context::FixedAtStart | Context::FixedInFile => "never",
            Context::Server => "start",
            Context::SessionStart => "session start",
            Context::User => "any time",
        };
        let reason = definition.description.strip_prefix("Accepted for compatibility: ");
        let what = match reason {
            Some(reason) => format!("**no effect**: {reason}"),
            None if has_no_effect(definition) => "**no effect**".to_owned(),
            None => definition.description.to_owned(),
        };
        let _ = writeln!(
            out,
            "| `{}` | {kind} | {} | {} | {range} | {change} | {what} |",
            definition.name,
            unit_word(unit).0,
            shown(Value::default_of(definition)),
        );
    }
}

fn document() -> String {
    let mut out = String::from(HEAD);
    for (title, names) in GROUPS {
        let _ = writeln!(out, "\n## {title}");
        let definition = |name: &&str| {
            let found = SETTINGS.iter().find(|definition| definition.name == *name);
            found.unwrap_or_else(|| panic!("no setting {name}"))
        };
        list(&mut out, names.iter().map(definition));
    }
    let _ = write!(out, "\n{FIXED}");
    list(&mut out, SETTINGS.iter().filter(|definition| is_fixed(definition)));
    let _ = write!(out, "\n{WITHOUT_EFFECT}");
    let ignored = |definition: &&SettingDefinition| has_no_effect(definition);
    list(&mut out, SETTINGS.iter().filter(ignored));
    out
}

#[test]
fn every_setting_is_in_one_group() {
    let mut grouped = BTreeSet::new();
    for name in GROUPS.iter().flat_map(|(_, names)| *names) {
        assert!(grouped.insert(*name), "{name} is in two groups");
    }
    for definition in SETTINGS {
        let places =
            [grouped.contains(definition.name), is_fixed(definition), has_no_effect(definition)];
        let count = places.iter().filter(|place| **place).count();
        assert_eq!(count, 1, "{} needs one place: a group in GROUPS, or none", definition.name);
    }
}

/// With `NIWAKI_REWRITE` set, this test writes the page anew; `cargo xtask settings` does that.
#[test]
fn the_settings_page_is_up_to_date() {
    let wanted = document();
    if std::env::var_os("NIWAKI_REWRITE").is_some() {
        std::fs::write(DOCUMENT, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/guide/settings.md is not up to date: run `cargo xtask settings`"
    );
}
