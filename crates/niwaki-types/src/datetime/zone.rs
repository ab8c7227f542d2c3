//! Time zones: names, and the offset in force at a moment.

use jiff::tz;

use crate::error::{Result, TypeError};

/// A time zone: the bundled rules of a named one, or a fixed offset. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct TimeZone {
    zone: tz::TimeZone,
    name: std::sync::Arc<str>,
}

impl TimeZone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self { zone: tz::TimeZone::UTC, name: "UTC".into() }
    }

    /// The zone called `name`, in any mix of upper and lower case.
    ///
    /// # Errors
    /// `22023` when there is none.
    pub fn get(name: &str) -> Result<Self> {
        let zone = tz::TimeZone::get(name)
            .map_err(|_| TypeError::new("22023", format!("time zone \"{name}\" not recognized")))?;
        let name = zone.iana_name().unwrap_or(name).into();
        Ok(Self { zone, name })
    }

    /// The name as the zone database spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rules.
    pub(crate) fn rules(&self) -> &tz::TimeZone {
        &self.zone
    }
}
