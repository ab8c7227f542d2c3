//! The tables of functions and operators, with their signatures and lookup by name.

mod arrays;
#[cfg(test)]
mod batch_tests;
mod catalog;
mod collated;
mod enums;
mod json;
mod number;
mod signatures;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod windows;

pub use collated::{call, under};
pub use json::{JsonAggregate, is_unsupported, of_json_objects, takes_json};
pub(crate) use signatures::{ByName, functions, index};
pub use tables::{
    arguments_text, compare_function, functions_named, operators_named, variadic_forms,
};
pub use text::quote::string_constant;

use niwaki_expr::function::{
    EmitRow, Function, Objects, ObjectsFunction, RowsFunction, T, WindowFunction, wrong_types,
};
