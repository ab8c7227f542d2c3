#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The settings that planning reads, as one copy.
pub mod planner_settings;
// The table of settings, and a session's values.
pub mod settings;
