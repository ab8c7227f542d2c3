//! Conversions of values between types, and to the names of objects.

pub(super) mod cast;
pub(super) mod convert_time;
pub(super) mod json_path;
pub(super) mod object_names;
