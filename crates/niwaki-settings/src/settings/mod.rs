//! Settings: names, units, ranges and defaults as PostgreSQL has them, and one session's values.
//!
//! [`Settings`] is a session's view. `SET` takes part in transactions: a rollback, also one to a
//! savepoint, brings the earlier value back; `SET LOCAL` ends with its transaction.

mod date_style;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use session::is_buffer_usage_limit;
pub use session::{HotSettings, PlanCacheMode, SettingRow, Settings};
pub use table::{
    Context, Kind, SERVER_VERSION, SERVER_VERSION_NUM, SETTINGS, SettingDefinition, Unit,
};
pub use value::Value;

pub use value::parse_kilobytes;

/// Returns an item of a list setting, quoted where reading it back needs quotes.
pub fn quote_list_item(item: &str, setting: &str) -> String {
    if setting == "search_path" { niwaki_types::quote_identifier(item) } else { item.to_owned() }
}

/// Returns a setting's name as PostgreSQL writes it, whatever the case of `name`.
pub fn full_name(name: &str) -> &str {
    table::position(name).map_or(name, |index| SETTINGS[index].name)
}

/// Returns names and values of the planner's settings that are not at their defaults, in the order
/// of names. `shown` gives the value of a setting as SHOW does.
pub fn changed_settings(shown: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let of_planner = SETTINGS.iter().filter(|definition| table::is_of_planner(definition.name));
    let changed = of_planner.filter_map(|definition| {
        let value = shown(definition.name)?;
        let default = Value::default_of(definition).show(definition);
        (value != default).then_some((definition.name, value))
    });
    changed.collect()
}

/// The reason why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// 42704 unknown, 42602 invalid name, 22023 bad value, 55P02 not now, 0A000 not supported.
    pub sqlstate: &'static str,
    /// PostgreSQL's wording.
    pub message: String,
    /// More about the reason.
    pub detail: Option<String>,
    /// The possible values.
    pub hint: Option<String>,
}

impl SettingError {
    fn new(sqlstate: &'static str, message: String) -> Self {
        Self { sqlstate, message, detail: None, hint: None }
    }

    fn with_detail(self, detail: String) -> Self {
        Self { detail: Some(detail), ..self }
    }
}
