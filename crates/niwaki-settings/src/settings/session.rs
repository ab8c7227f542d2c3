//! Holds one session's settings, which SET changes transactionally.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_types::{DateOrder, DateStyle, IntervalStyle};

use super::table::{Context, SETTINGS, SettingDefinition, position};
use super::value::Value;
use super::{SettingError, date_style};
use crate::planner_settings::CostSettings;

/// The plans that executions of prepared statements use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanCacheMode {
    /// The cheaper plan of the two kinds.
    Auto,
    /// One plan for all values.
    Generic,
    /// A plan for the values of each execution.
    Custom,
}

/// The settings that run-time code reads at every statement, ready to use.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSettings {
    /// `statement_timeout` in milliseconds, 0: none.
    pub statement_timeout_ms: u64,
    /// `lock_timeout` in milliseconds, 0: none.
    pub lock_timeout_ms: u64,
    /// `idle_in_transaction_session_timeout` in milliseconds, 0: none.
    pub idle_in_transaction_timeout_ms: u64,
    /// `idle_session_timeout` in milliseconds, 0: none.
    pub idle_session_timeout_ms: u64,
    /// `deadlock_timeout` in milliseconds.
    pub deadlock_timeout_ms: u64,
    /// True if COMMIT waits for the log (`synchronous_commit` is not off).
    pub synchronous_commit: bool,
    /// True if `default_transaction_isolation` is repeatable read.
    pub default_repeatable_read: bool,
    /// `default_transaction_read_only`
    pub default_read_only: bool,
    /// `default_transaction_deferrable`
    pub default_deferrable: bool,
    /// `extra_float_digits`
    pub extra_float_digits: i32,
    /// True if `bytea_output` is `escape`.
    pub bytea_escape: bool,
    /// `TimeZone`
    pub time_zone: Arc<str>,
    /// Output form of `DateStyle`.
    pub date_style: DateStyle,
    /// Field order of `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`
    pub interval_style: IntervalStyle,
    /// `enable_seqscan`
    pub enable_seqscan: bool,
    /// `enable_indexscan`
    pub enable_indexscan: bool,
    /// `enable_indexonlyscan`
    pub enable_indexonlyscan: bool,
    /// `enable_bitmapscan`
    pub enable_bitmapscan: bool,
    /// `enable_skipscan`
    pub enable_skipscan: bool,
    /// `enable_tidscan`
    pub enable_tidscan: bool,
    /// `enable_hashjoin`
    pub enable_hashjoin: bool,
    /// `enable_mergejoin`
    pub enable_mergejoin: bool,
    /// `enable_nestloop`
    pub enable_nestloop: bool,
    /// `enable_incremental_sort`
    pub enable_incremental_sort: bool,
    /// `enable_hashagg`
    pub enable_hashagg: bool,
    /// `plan_cache_mode`
    pub plan_cache_mode: PlanCacheMode,
    /// The planner's costs of reading (`*_cost`, `effective_cache_size`).
    pub costs: CostSettings,
    /// `work_mem` in bytes.
    pub work_mem_bytes: usize,
    /// Bytes that a hash table may take: `work_mem` times `hash_mem_multiplier`.
    pub hash_mem_bytes: usize,
    /// `temp_file_limit` in bytes; `None` without a limit.
    pub temp_file_limit_bytes: Option<u64>,
    /// `effective_io_concurrency`: concurrent reads of a scan.
    pub effective_io_concurrency: u32,
    /// `maintenance_io_concurrency`: concurrent reads of VACUUM, ANALYZE and index builds.
    pub maintenance_io_concurrency: u32,
    /// `io_combine_limit` in pages.
    pub io_combine_pages: u32,
    /// `maintenance_work_mem` in bytes.
    pub maintenance_work_mem_bytes: usize,
    /// `max_parallel_maintenance_workers`: threads besides the session's own.
    pub parallel_maintenance_workers: usize,
    /// `max_parallel_workers_per_gather`: parallel workers of one step of a query.
    pub parallel_workers: usize,
    /// `max_parallel_workers`: parallel workers of all sessions.
    pub parallel_workers_of_all: usize,
    /// `min_parallel_table_scan_size` in blocks.
    pub parallel_table_blocks: f64,
    /// Grows whenever a setting that plans depend on changes (`enable_*`, costs, `search_path`,
    /// `TimeZone`).
    pub plan_version: u64,
}

/// One line of `pg_settings` and of SHOW ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Name.
    pub name: &'static str,
    /// The value as SHOW shows it.
    pub shown: String,
    /// The value in the base unit.
    pub plain: String,
    /// The default, in the base unit.
    pub boot: String,
    /// The value after RESET, in the base unit.
    pub reset: String,
    /// The definition's description.
    pub description: &'static str,
}

struct Undo {
    previous: Previous,
    local: bool,
}

/// The earlier value of a setting.
enum Previous {
    Known { index: usize, value: Value },
    Custom { key: String, value: String },
}

impl Previous {
    /// Returns true if both are values of the same setting.
    fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known { index: a, .. }, Self::Known { index: b, .. }) => a == b,
            (Self::Custom { key: a, .. }, Self::Custom { key: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// A setting that Niwaki does not know. It exists once it was named, and is empty until it gets a
/// value.
#[derive(Clone, Debug, Default)]
struct Custom {
    value: String,
    /// The value after RESET.
    reset: String,
}

/// One session's settings.
pub struct Settings {
    values: Vec<Value>,
    /// The values after RESET: the server's values, overridden by the session's start-up options.
    reset: Vec<Value>,
    /// Settings with a dotted name that Niwaki does not know, by name in lower case. Their values
    /// are kept as text (PostgreSQL's placeholders).
    custom: BTreeMap<String, Custom>,
    undo: Vec<Undo>,
    hot: HotSettings,
    changed_reports: Vec<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// Creates settings with their defaults.
    pub fn new() -> Self {
        let values: Vec<Value> = SETTINGS.iter().map(Value::default_of).collect();
        let hot = HotSettings {
            statement_timeout_ms: 0,
            lock_timeout_ms: 0,
            idle_in_transaction_timeout_ms: 0,
            idle_session_timeout_ms: 0,
            deadlock_timeout_ms: 1000,
            synchronous_commit: true,
            default_repeatable_read: false,
            default_read_only: false,
            default_deferrable: false,
            extra_float_digits: 1,
            bytea_escape: false,
            time_zone: Arc::from("Etc/UTC"),
            date_style: DateStyle::default(),
            date_order: DateOrder::default(),
            interval_style: IntervalStyle::default(),
            enable_seqscan: true,
            enable_indexscan: true,
            enable_indexonlyscan: true,
            enable_bitmapscan: true,
            enable_skipscan: true,
            enable_tidscan: true,
            enable_hashjoin: true,
            enable_mergejoin: true,
            enable_nestloop: true,
            enable_incremental_sort: true,
            enable_hashagg: true,
            plan_cache_mode: PlanCacheMode::Auto,
            costs: CostSettings::default(),
            work_mem_bytes: 0,
            hash_mem_bytes: 0,
            temp_file_limit_bytes: None,
            effective_io_concurrency: 0,
            maintenance_io_concurrency: 0,
            io_combine_pages: 1,
            maintenance_work_mem_bytes: 0,
            parallel_maintenance_workers: 0,
            parallel_workers: 0,
            parallel_workers_of_all: 0,
            parallel_table_blocks: 0.0,
            plan_version: 0,
        };
        let mut settings = Self {
            reset: values.clone(),
            values,
            custom: BTreeMap::new(),
            undo: Vec::new(),
            hot,
            changed_reports: Vec::new(),
        };
        settings.refresh_hot();
        settings
    }

    /// Creates a session's settings, which start from a server's.
    #[must_use]
    pub fn for_session(&self) -> Self {
        Self {
            values: self.values.clone(),
            reset: self.values.clone(),
            custom: self.custom.clone(),
            undo: Vec::new(),
            hot: self.hot.clone(),
            changed_reports: Vec::new(),
        }
    }

    /// Takes over the TCP port that the server listens on; there is no other way to set it.
    pub fn set_port(&mut self, port: u16) {
        if let Some(index) = position("port") {
            self.values[index] = Value::Int(port.into());
            self.reset[index] = Value::Int(port.into());
        }
    }

    /// Returns the settings that statements read at run time.
    #[inline]
    pub fn hot(&self) -> &HotSettings {
        &self.hot
    }

    /// Sets a value outside transactions, also as the value after RESET. `server` is true at server
    /// start (`--set`), and false for a client's start-up packet.
    ///
    /// # Errors
    /// Unknown name, bad value, or a setting that cannot change at that time.
    pub fn set_at_start(
        &mut self,
        name: &str,
        text: &str,
        server: bool,
    ) -> Result<(), SettingError> {
        let Some(index) = position(name) else {
            let (value, reset) = (text.to_owned(), text.to_owned());
            self.custom.insert(custom_key(name)?, Custom { value, reset });
            return Ok(());
        };
        let definition = &SETTINGS[index];
        match definition.context {
            Context::Internal => return Err(cannot_change(definition)),
            Context::FixedAtStart | Context::FixedInFile if server => {
                return Err(cannot_change(definition));
            }
            Context::FixedInFile => return Err(not_now(definition)),
            Context::FixedAtStart => return Err(needs_restart(definition)),
            Context::Server if !server => return Err(needs_restart(definition)),
            _ => {}
        }
        let value = self.check(index, text)?;
        self.values[index] = value.clone();
        self.reset[index] = value;
        self.refresh_hot();
        Ok(())
    }

    /// Runs `SET [LOCAL] name = text`. The change can be undone: the caller ends it with
    /// [`Settings::commit`] or [`Settings::rollback`].
    ///
    /// # Errors
    /// 42704, 42602, 22023, 55P02.
    pub fn set(&mut self, name: &str, text: &str, local: bool) -> Result<(), SettingError> {
        let Some(index) = position(name) else {
            self.assign_custom(custom_key(name)?, text.to_owned(), local);
            return Ok(());
        };
        let definition = &SETTINGS[index];
        self.may_change(definition)?;
        let value = self.check(index, text)?;
        self.assign(index, value, local);
        self.leave_role(definition, local);
        Ok(())
    }

    /// Runs `RESET name` or `SET name TO DEFAULT`.
    ///
    /// # Errors
    /// 42704, 55P02.
    pub fn reset(&mut self, name: &str, local: bool) -> Result<(), SettingError> {
        let Some(index) = position(name) else {
            let key = custom_key(name)?;
            let reset = self.custom.get(&key).map(|custom| custom.reset.clone());
            self.assign_custom(key, reset.unwrap_or_default(), local);
            return Ok(());
        };
        let definition = &SETTINGS[index];
        self.may_change(definition)?;
        self.assign(index, self.reset[index].clone(), local);
        self.leave_role(definition, local);
        Ok(())
    }

    /// Ends the effect of SET ROLE where the session user is set.
    fn leave_role(&mut self, set: &SettingDefinition, local: bool) {
        if set.name == "session_authorization"
            && let Some(role) = position("role")
        {
            self.assign(role, self.reset[role].clone(), local);
        }
    }

    /// Runs `RESET ALL`, which keeps the roles and the modes of the transaction.
    pub fn reset_all(&mut self) {
        for (index, definition) in SETTINGS.iter().enumerate() {
            let kept =
                definition.name.starts_with("transaction_") || ROLES.contains(&definition.name);
            if definition.context == Context::User
                && !kept
                && self.values[index] != self.reset[index]
            {
                self.assign(index, self.reset[index].clone(), false);
            }
        }
        let others = self.custom.iter().filter(|(_, custom)| custom.value != custom.reset);
        let others: Vec<_> =
            others.map(|(key, custom)| (key.clone(), custom.reset.clone())).collect();
        for (key, reset) in others {
            self.assign_custom(key, reset, false);
        }
    }

    /// Runs `RESET ALL` for DISCARD ALL, which also sets the roles back.
    pub fn discard_all(&mut self) {
        self.reset_all();
        for index in ROLES.iter().filter_map(|name| position(name)) {
            if self.values[index] != self.reset[index] {
                self.assign(index, self.reset[index].clone(), false);
            }
        }
    }

    /// Runs `SHOW name`.
    ///
    /// # Errors
    /// 42704.
    pub fn show(&self, name: &str) -> Result<String, SettingError> {
        if let Some(index) = position(name) {
            Ok(self.values[index].show(&SETTINGS[index]))
        } else {
            let custom = self.custom.get(&name.to_ascii_lowercase());
            custom.map(|custom| custom.value.clone()).ok_or_else(|| unknown(name))
        }
    }

    /// Returns the name as `SHOW ALL` spells it, which is also the column name of `SHOW`.
    pub fn canonical_name(&self, name: &str) -> String {
        position(name).map_or_else(|| name.to_owned(), |i| SETTINGS[i].name.to_owned())
    }

    /// Returns a number in its base unit; 0 when the setting is not an integer.
    pub fn int(&self, name: &str) -> i64 {
        match position(name).map(|i| &self.values[i]) {
            Some(Value::Int(v)) => *v,
            _ => 0,
        }
    }

    /// Returns a number with a fraction; 0 when the setting is not such a number.
    pub fn float(&self, name: &str) -> f64 {
        match position(name).map(|i| &self.values[i]) {
            Some(Value::Float(v)) => *v,
            _ => 0.0,
        }
    }

    /// Returns a switch; false when the setting is not a switch.
    pub fn bool(&self, name: &str) -> bool {
        matches!(position(name).map(|i| &self.values[i]), Some(Value::Bool(true)))
    }

    /// Returns the text of a setting; empty when the setting is unknown or not a text.
    pub fn text(&self, name: &str) -> Arc<str> {
        match position(name).map(|i| &self.values[i]) {
            Some(Value::Text(t)) => Arc::clone(t),
            _ => Arc::from(""),
        }
    }

    /// Returns the names of the search path, in order.
    pub fn search_path(&self) -> Vec<String> {
        split_identifiers(&self.text("search_path")).unwrap_or_default()
    }

    /// Returns all settings, in the order of names.
    pub fn rows(&self) -> impl Iterator<Item = (&'static SettingDefinition, SettingRow)> {
        SETTINGS.iter().enumerate().map(|(i, d)| {
            let row = SettingRow {
                name: d.name,
                shown: self.values[i].show(d),
                plain: self.values[i].plain(),
                boot: Value::default_of(d).plain(),
                reset: self.reset[i].plain(),
                description: d.description,
            };
            (d, row)
        })
    }

    /// Returns the names and values that the server reports to a client at start.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        SETTINGS
            .iter()
            .enumerate()
            .filter(|(_, d)| d.reported)
            .map(|(i, d)| (d.name, self.values[i].show(d)))
    }

    /// Returns the reported settings that changed since the last call. Cheap when none did.
    #[inline]
    pub fn take_changed(&mut self) -> Option<Vec<(&'static str, String)>> {
        if self.changed_reports.is_empty() {
            return None;
        }
        let mut indexes = std::mem::take(&mut self.changed_reports);
        indexes.sort_unstable();
        indexes.dedup();
        Some(
            indexes
                .into_iter()
                .map(|i| (SETTINGS[i].name, self.values[i].show(&SETTINGS[i])))
                .collect(),
        )
    }

    /// Returns a mark, for a savepoint, to return to with [`Settings::rollback_to`].
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all changes since the mark.
    pub fn rollback_to(&mut self, mark: usize) {
        if self.undo.len() <= mark {
            return;
        }
        while self.undo.len() > mark {
            if let Some(undo) = self.undo.pop() {
                self.bring_back(undo.previous);
            }
        }
        self.refresh_hot();
    }

    /// Returns true if the running transaction set anything, so that its end may change settings.
    #[inline]
    pub fn is_touched(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Ends a failed transaction: undoes all its changes.
    pub fn rollback(&mut self) {
        self.rollback_to(0);
    }

    /// Ends a committed transaction: keeps its changes, except SET LOCAL.
    pub fn commit(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        let mut kept: Vec<Previous> = Vec::new();
        let mut changed = false;
        while let Some(Undo { previous, local }) = self.undo.pop() {
            if kept.iter().any(|kept| kept.is_of(&previous)) {
                continue;
            }
            if local {
                self.bring_back(previous);
                changed = true;
            } else {
                // A plain SET after a SET LOCAL wins.
                kept.push(previous);
            }
        }
        if changed {
            self.refresh_hot();
        }
    }

    /// Reads `text` as a value for the setting of this number.
    fn check(&self, index: usize, text: &str) -> Result<Value, SettingError> {
        let definition = &SETTINGS[index];
        if definition.name != "DateStyle" {
            return check(definition, text);
        }
        // Parts that are left out stay as they are.
        let checked =
            date_style::check(text, &self.values[index].plain(), &self.reset[index].plain());
        checked.map(|style| Value::Text(Arc::from(style))).map_err(|detail| {
            let name = definition.name;
            let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
            SettingError::new("22023", message).with_detail(detail)
        })
    }

    fn may_change(&self, definition: &SettingDefinition) -> Result<(), SettingError> {
        match definition.context {
            Context::User => Ok(()),
            Context::Internal => Err(cannot_change(definition)),
            Context::Server | Context::FixedAtStart => Err(needs_restart(definition)),
            Context::FixedInFile => Err(not_now(definition)),
            Context::SessionStart => Err(SettingError::new(
                "55P02",
                format!("parameter \"{}\" cannot be set after connection start", definition.name),
            )),
        }
    }

    fn assign_custom(&mut self, key: String, value: String, local: bool) {
        let custom = self.custom.entry(key.clone()).or_default();
        let previous = Previous::Custom { key, value: std::mem::replace(&mut custom.value, value) };
        self.undo.push(Undo { previous, local });
    }

    fn bring_back(&mut self, previous: Previous) {
        match previous {
            Previous::Known { index, value } => self.store(index, value),
            Previous::Custom { key, value } => self.custom.entry(key).or_default().value = value,
        }
    }

    fn assign(&mut self, index: usize, value: Value, local: bool) {
        let previous = Previous::Known { index, value: self.values[index].clone() };
        self.undo.push(Undo { previous, local });
        self.store(index, value);
        self.refresh_hot();
    }

    fn store(&mut self, index: usize, value: Value) {
        if self.values[index] != value && SETTINGS[index].reported {
            self.changed_reports.push(index);
        }
        let name = SETTINGS[index].name;
        let plans = name.starts_with("enable_")
            || name.ends_with("_cost")
            || matches!(
                name,
                "effective_cache_size"
                    | "max_parallel_workers_per_gather"
                    | "min_parallel_table_scan_size"
                    | "search_path"
                    | "TimeZone"
            );
        if plans {
            self.hot.plan_version += 1;
        }
        self.values[index] = value;
    }

    fn refresh_hot(&mut self) {
        let ms = |v: i64| u64::try_from(v).unwrap_or(0);
        let number = |name| u32::try_from(self.int(name)).unwrap_or(0);
        let bytes = |v: i64| usize::try_from(v).unwrap_or(0).saturating_mul(1024);
        let (date_style, date_order) = date_style::parts(&self.text("DateStyle"));
        self.hot = HotSettings {
            statement_timeout_ms: ms(self.int("statement_timeout")),
            lock_timeout_ms: ms(self.int("lock_timeout")),
            idle_in_transaction_timeout_ms: ms(self.int("idle_in_transaction_session_timeout")),
            idle_session_timeout_ms: ms(self.int("idle_session_timeout")),
            deadlock_timeout_ms: ms(self.int("deadlock_timeout")),
            synchronous_commit: &*self.text("synchronous_commit") != "off",
            default_repeatable_read: &*self.text("default_transaction_isolation")
                == "repeatable read",
            default_read_only: self.bool("default_transaction_read_only"),
            default_deferrable: self.bool("default_transaction_deferrable"),
            extra_float_digits: i32::try_from(self.int("extra_float_digits")).unwrap_or(1),
            bytea_escape: &*self.text("bytea_output") == "escape",
            time_zone: self.text("TimeZone"),
            date_style,
            date_order,
            interval_style: match &*self.text("IntervalStyle") {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            enable_seqscan: self.bool("enable_seqscan"),
            enable_indexscan: self.bool("enable_indexscan"),
            enable_indexonlyscan: self.bool("enable_indexonlyscan"),
            enable_bitmapscan: self.bool("enable_bitmapscan"),
            enable_skipscan: self.bool("enable_skipscan"),
            enable_tidscan: self.bool("enable_tidscan"),
            enable_hashjoin: self.bool("enable_hashjoin"),
            enable_mergejoin: self.bool("enable_mergejoin"),
            enable_nestloop: self.bool("enable_nestloop"),
            enable_incremental_sort: self.bool("enable_incremental_sort"),
            enable_hashagg: self.bool("enable_hashagg"),
            plan_cache_mode: match &*self.text("plan_cache_mode") {
                "force_generic_plan" => PlanCacheMode::Generic,
                "force_custom_plan" => PlanCacheMode::Custom,
                _ => PlanCacheMode::Auto,
            },
            costs: CostSettings {
                seq_page_cost: self.float("seq_page_cost"),
                random_page_cost: self.float("random_page_cost"),
                cpu_tuple_cost: self.float("cpu_tuple_cost"),
                cpu_index_tuple_cost: self.float("cpu_index_tuple_cost"),
                cpu_operator_cost: self.float("cpu_operator_cost"),
                effective_cache_size: self.int("effective_cache_size") as f64,
            },
            work_mem_bytes: bytes(self.int("work_mem")),
            hash_mem_bytes: (bytes(self.int("work_mem")) as f64 * self.float("hash_mem_multiplier"))
                as usize,
            temp_file_limit_bytes: u64::try_from(self.int("temp_file_limit"))
                .ok()
                .map(|kilobytes| kilobytes * 1024),
            effective_io_concurrency: number("effective_io_concurrency"),
            maintenance_io_concurrency: number("maintenance_io_concurrency"),
            io_combine_pages: number("io_combine_limit"),
            maintenance_work_mem_bytes: bytes(self.int("maintenance_work_mem")),
            parallel_maintenance_workers: usize::try_from(
                self.int("max_parallel_maintenance_workers"),
            )
            .unwrap_or(0),
            parallel_workers: usize::try_from(self.int("max_parallel_workers_per_gather"))
                .unwrap_or(0),
            parallel_workers_of_all: usize::try_from(self.int("max_parallel_workers")).unwrap_or(0),
            parallel_table_blocks: self.int("min_parallel_table_scan_size") as f64,
            plan_version: self.hot.plan_version,
        };
    }
}

/// Returns the key of a setting that Niwaki does not know.
///
/// # Errors
/// 42704 for a name without a dot, which cannot be a custom setting; 42602 where a part of the name
/// is not an identifier.
fn custom_key(name: &str) -> Result<String, SettingError> {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
    };
    if !name.contains('.') {
        return Err(unknown(name));
    }
    if !name.split('.').all(is_part) {
        let message = format!("invalid configuration parameter name \"{name}\"");
        let detail =
            "Custom parameter names must be two or more simple identifiers separated by dots.";
        return Err(SettingError::new("42602", message).with_detail(detail.to_owned()));
    }
    Ok(name.to_ascii_lowercase())
}

fn unknown(name: &str) -> SettingError {
    SettingError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}

fn cannot_change(definition: &SettingDefinition) -> SettingError {
    SettingError::new("55P02", format!("parameter \"{}\" cannot be changed", definition.name))
}

fn not_now(definition: &SettingDefinition) -> SettingError {
    SettingError::new("55P02", format!("parameter \"{}\" cannot be changed now", definition.name))
}

fn needs_restart(definition: &SettingDefinition) -> SettingError {
    SettingError::new(
        "55P02",
        format!(
            "parameter \"{}\" cannot be changed without restarting the server",
            definition.name
        ),
    )
}

/// Decides whether `kilobytes` is a valid limit of pool memory for VACUUM; 0 means no limit.
pub fn is_buffer_usage_limit(kilobytes: i64) -> bool {
    kilobytes == 0 || (128..=16_777_216).contains(&kilobytes)
}

/// The settings of roles.
const ROLES: [&str; 2] = ["session_authorization", "role"];
/// The only role of a database, with which each session begins.
const ONLY_ROLE: &str = "postgres";
/// The other roles that each database of PostgreSQL 15 has. No session can take them on.
const PREDEFINED_ROLES: [&str; 12] = [
    "pg_checkpoint",
    "pg_database_owner",
    "pg_execute_server_program",
    "pg_monitor",
    "pg_read_all_data",
    "pg_read_all_settings",
    "pg_read_all_stats",
    "pg_read_server_files",
    "pg_signal_backend",
    "pg_stat_scan_tables",
    "pg_write_all_data",
    "pg_write_server_files",
];

/// Runs the checks beyond type and range.
fn check(definition: &SettingDefinition, text: &str) -> Result<Value, SettingError> {
    let value = Value::parse(definition, text)?;
    if let ("vacuum_buffer_usage_limit", Value::Int(kilobytes)) = (definition.name, &value)
        && !is_buffer_usage_limit(*kilobytes)
    {
        let name = definition.name;
        let message = format!("invalid value for parameter \"{name}\": {kilobytes}");
        let range = format!("\"{name}\" must be 0 or between 128 kB and 16777216 kB");
        return Err(SettingError::new("22023", message).with_detail(range));
    }
    if let ("default_with_oids", Value::Bool(true)) = (definition.name, &value) {
        let message = "tables declared WITH OIDS are not supported".to_owned();
        return Err(SettingError::new("0A000", message));
    }
    let Value::Text(given) = &value else { return Ok(value) };
    let invalid = || {
        SettingError::new(
            "22023",
            format!("invalid value for parameter \"{}\": \"{text}\"", definition.name),
        )
    };
    let unsupported = |what: &str| {
        Err(SettingError::new("0A000", format!("{what} \"{text}\" is not supported yet")))
    };
    match definition.name {
        name @ "standard_conforming_strings" if &**given == "off" => unsupported(name),
        // Triggers and foreign keys would have to follow it.
        name @ "session_replication_role" if &**given == "replica" => unsupported(name),
        "role" | "session_authorization" if **given == *ONLY_ROLE => Ok(value),
        "role" if &**given == "none" => Ok(value),
        "role" if PREDEFINED_ROLES.contains(&&**given) => unsupported("SET ROLE"),
        "session_authorization" if PREDEFINED_ROLES.contains(&&**given) => {
            unsupported("SET SESSION AUTHORIZATION")
        }
        "role" | "session_authorization" => {
            Err(SettingError::new("22023", format!("role \"{text}\" does not exist")))
        }
        "client_encoding" => {
            let folded: String = given
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect::<String>()
                .to_lowercase();
            match folded.as_str() {
                "utf8" | "unicode" => Ok(Value::Text(Arc::from("UTF8"))),
                _ if is_known_encoding(&folded) => unsupported("client_encoding"),
                _ => Err(invalid()),
            }
        }
        "default_transaction_isolation" | "transaction_isolation" if &**given == "serializable" => {
            unsupported("isolation level")
        }
        "TimeZone" => match niwaki_types::TimeZone::get(given) {
            Ok(zone) => Ok(Value::Text(Arc::from(zone.name()))),
            Err(_) => Err(invalid()),
        },
        "search_path" if split_identifiers(given).is_none() => {
            Err(invalid().with_detail("List syntax is invalid.".to_owned()))
        }
        "application_name" => {
            let printable: String = given
                .bytes()
                .map(|b| if (b' '..=b'~').contains(&b) { b.into() } else { '?' })
                .collect();
            Ok(Value::Text(Arc::from(printable.get(..63).unwrap_or(&printable))))
        }
        _ => Ok(value),
    }
}

/// Decides whether PostgreSQL accepts this encoding from clients; the name is folded to letters and
/// digits.
fn is_known_encoding(folded: &str) -> bool {
    const KNOWN: &[&str] = &[
        "sqlascii",
        "eucjp",
        "euccn",
        "euckr",
        "euctw",
        "eucjis2004",
        "mulinternal",
        "latin1",
        "latin2",
        "latin3",
        "latin4",
        "latin5",
        "latin6",
        "latin7",
        "latin8",
        "latin9",
        "latin10",
        "iso88591",
        "iso88592",
        "iso88595",
        "iso88596",
        "iso88597",
        "iso88598",
        "iso885915",
        "win1250",
        "win1251",
        "win1252",
        "win1253",
        "win1254",
        "win1255",
        "win1256",
        "win1257",
        "win1258",
        "win866",
        "win874",
        "windows1250",
        "windows1251",
        "windows1252",
        "koi8r",
        "koi8u",
        "koi8",
        "sjis",
        "big5",
        "gbk",
        "uhc",
        "gb18030",
        "johab",
        "shiftjis2004",
    ];
    KNOWN.contains(&folded)
}

/// Splits a list of identifiers at commas; unquoted ones are folded to lower case.
pub(super) fn split_identifiers(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let mut end = None;
            while let Some((i, c)) = chars.next() {
                if c != '"' {
                    name.push(c);
                } else if chars.peek().is_some_and(|(_, n)| *n == '"') {
                    name.push('"');
                    chars.next();
                } else {
                    end = Some(i + 1);
                    break;
                }
            }
            names.push(name);
            rest = quoted[end?..].trim_start();
        } else {
            let end = rest.find([',', ' ']).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            names.push(rest[..end].to_lowercase());
            rest = rest[end..].trim_start();
        }
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_ranges() {
        let mut s = Settings::new();
        s.set("statement_timeout", "2min", false).unwrap();
        assert_eq!(s.hot().statement_timeout_ms, 120_000);
        assert_eq!(s.show("statement_timeout").unwrap(), "2min");
        s.set("work_mem", "64MB", false).unwrap();
        assert_eq!(s.show("WORK_MEM").unwrap(), "64MB");
        assert_eq!(s.show("shared_buffers").unwrap(), "128MB");
        for (text, shown) in [("2", "2ms"), ("1500us", "1500us"), ("0.05s", "50ms"), ("0", "0")] {
            s.set("vacuum_cost_delay", text, false).unwrap();
            assert_eq!(s.show("vacuum_cost_delay").unwrap(), shown);
        }
        for (name, text, sqlstate) in
            [("vacuum_cost_delay", "2kB", "22023"), ("seq_page_cost", "1ms", "22023")]
        {
            assert_eq!(s.set(name, text, false).unwrap_err().sqlstate, sqlstate, "{name} {text}");
        }
        s.set("seq_page_cost", "1e2", false).unwrap();
        assert_eq!(s.show("seq_page_cost").unwrap(), "100");
        let e = s.set("extra_float_digits", "4", false).unwrap_err();
        assert_eq!(
            e.message,
            "4 is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)"
        );
        assert_eq!(s.set("enable_seqscan", "maybe", false).unwrap_err().sqlstate, "22023");
        assert_eq!(s.set("nonsense", "1", false).unwrap_err().sqlstate, "42704");
        assert_eq!(s.set("server_version", "1", false).unwrap_err().sqlstate, "55P02");
        assert_eq!(s.set("shared_buffers", "1GB", false).unwrap_err().sqlstate, "55P02");
        assert_eq!(s.set("client_encoding", "LATIN1", false).unwrap_err().sqlstate, "0A000");
        assert_eq!(
            s.set("default_transaction_isolation", "serializable", false).unwrap_err().sqlstate,
            "0A000"
        );
    }

    #[test]
    fn set_takes_part_in_transactions() {
        let mut s = Settings::new();
        s.set("work_mem", "1MB", false).unwrap();
        s.commit();
        s.set("work_mem", "2MB", false).unwrap();
        s.rollback();
        assert_eq!(s.show("work_mem").unwrap(), "1MB");
        s.set("work_mem", "3MB", true).unwrap();
        assert_eq!(s.show("work_mem").unwrap(), "3MB");
        s.commit();
        assert_eq!(s.show("work_mem").unwrap(), "1MB");
        s.set("work_mem", "3MB", true).unwrap();
        s.set("work_mem", "4MB", false).unwrap();
        s.commit();
        assert_eq!(s.show("work_mem").unwrap(), "4MB");
        s.set("work_mem", "5MB", false).unwrap();
        s.set("work_mem", "6MB", true).unwrap();
        s.commit();
        assert_eq!(s.show("work_mem").unwrap(), "5MB");
        let mark = s.mark();
        s.set("work_mem", "7MB", false).unwrap();
        s.rollback_to(mark);
        assert_eq!(s.show("work_mem").unwrap(), "5MB");
    }

    #[test]
    fn search_path_is_split_and_quoted() {
        let mut s = Settings::new();
        assert_eq!(s.search_path(), ["$user", "public"]);
        s.set("search_path", "A, \"B c\"", false).unwrap();
        assert_eq!(s.search_path(), ["a", "B c"]);
        assert_eq!(s.show("search_path").unwrap(), "A, \"B c\"");
        assert!(s.set("search_path", "a,,b", false).is_err());
    }

    #[test]
    fn changes_of_reported_settings_are_told_once() {
        let mut s = Settings::new();
        assert_eq!(s.take_changed(), None);
        s.set("application_name", "psql", false).unwrap();
        assert_eq!(s.take_changed(), Some(vec![("application_name", "psql".to_owned())]));
        assert_eq!(s.take_changed(), None);
        s.rollback();
        assert_eq!(s.take_changed(), Some(vec![("application_name", String::new())]));
    }
}
