//! The tables of functions and operators, with their signatures and lookup by name.

mod advisory;
mod arrays;
#[cfg(test)]
mod batch_tests;
mod binary;
pub mod catalog;
mod collated;
mod column_size;
mod definitions;
mod enums;
mod format;
mod formatting;
mod information;
mod inspect;
mod json;
mod math;
mod moments;
mod operators;
mod overlaps;
mod partition_constraint;
mod partitions;
mod pattern;
mod prewarm;
mod privileges;
mod quote;
mod random;
mod regexp;
mod routines;
mod shown;
mod signatures;
mod sizes;
mod system;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod time_of_day;
mod trigonometry;
mod unicode;
mod uuid;
mod windows;

pub use collated::{call, under};
pub use json::{JsonAggregate, is_unsupported, of_json_objects, takes_json};
pub use quote::string_constant;
pub(crate) use signatures::{ByName, functions, index};
pub use tables::{
    arguments_text, compare_function, functions_named, operators_named, variadic_forms,
};
pub use tables::{is_function_shown, is_operator_shown};

use niwaki_expr::function::{
    EmitRow, Function, Objects, ObjectsFunction, RowsFunction, T, WindowFunction, wrong_types,
};
