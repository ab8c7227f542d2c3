//! Text form of values: by the settings, and with the names of user-defined types.

use std::sync::Arc;

use niwaki_sql::settings::Settings;
use niwaki_types::{TextSettings, UserTypes};

/// The text settings of a session.
pub(crate) struct TextForm {
    settings: TextSettings,
    /// Versions for which `settings` has the user-defined types and their names. The first version
    /// is the catalog's. The second is the settings', because the search path decides how types are
    /// named.
    types_version: (u64, u64),
    /// Set when the text settings changed after the sink got them.
    changed: bool,
}

impl Default for TextForm {
    fn default() -> Self {
        Self { settings: TextSettings::default(), types_version: (0, 0), changed: true }
    }
}

impl TextForm {
    /// Returns the settings by which values are shown as text now.
    pub(crate) fn settings(&self) -> &TextSettings {
        &self.settings
    }

    /// Takes over the settings of the session.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        let hot = settings.hot();
        let text = &mut self.settings;
        let same = text.extra_float_digits == hot.extra_float_digits
            && text.bytea_escape == hot.bytea_escape
            && text.time_zone == hot.time_zone
            && text.date_style == hot.date_style
            && text.date_order == hot.date_order
            && text.interval_style == hot.interval_style;
        if !same {
            text.extra_float_digits = hot.extra_float_digits;
            text.bytea_escape = hot.bytea_escape;
            text.date_style = hot.date_style;
            text.date_order = hot.date_order;
            text.interval_style = hot.interval_style;
            // The name was checked when it was set.
            let zone = Arc::clone(&hot.time_zone);
            let _ = text.set_time_zone(&zone);
            text.time_zone = zone;
            self.changed = true;
        }
    }

    /// Returns whether the types are those of this version.
    pub(crate) fn has_types_of(&self, version: (u64, u64)) -> bool {
        self.types_version == version
    }

    /// Takes over the user-defined types of this version.
    pub(crate) fn set_types(&mut self, version: (u64, u64), types: Arc<UserTypes>) {
        self.types_version = version;
        if !Arc::ptr_eq(&self.settings.types, &types) {
            self.settings.types = types;
            self.changed = true;
        }
    }

    /// Returns whether the settings changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
