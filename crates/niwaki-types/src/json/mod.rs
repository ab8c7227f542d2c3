//! `json`, which keeps its text as it was given, and `jsonb`, which is a tree.
//!
//! A value of type `json` is a text that was found to be JSON; [`RawJson`] takes it apart. A value
//! of type `jsonb` is a [`Jsonb`]. One parser serves both; its errors are PostgreSQL's, with the
//! place in the text.
//!
//! The order: reading (`lex`, `parse`), trees (`json_tree`) with their order, text and stored form
//! (`order`, `text`, `stored`), questions and changes (`contains`, `edit`), `json` (`raw`), and
//! paths (`path`).

mod contains;
mod edit;
pub(crate) mod json_tree;
mod lex;
mod order;
mod parse;
pub(crate) mod path;
pub(crate) mod raw;
mod stored;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod text;

pub use edit::{PathChange, path_index};
pub use json_tree::{Jsonb, JsonbArray, JsonbObject};
pub use parse::JSON_DEPTH_MAX;
pub use path::{JsonPath, Path, PathMethod, PathOperator, PathStep, RegexFlags};
pub use raw::{JsonShape, RawJson, RawKind, json_shape};
pub use text::write_json_string;
