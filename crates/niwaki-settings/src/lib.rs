#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod planner_settings;
pub mod settings;
