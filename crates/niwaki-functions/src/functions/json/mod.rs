//! Functions and operators of `json` and `jsonb`.

mod access;
mod build;
mod convert;
mod edit;
mod expand;
mod path;
mod records;
mod values;

use super::{Function, functions};

pub use build::JsonAggregate;
pub use records::{of_json_objects, takes_json};

/// Functions of PostgreSQL that are refused by name: those that need text search.
const UNSUPPORTED: &[&str] = &["json_to_tsvector", "jsonb_to_tsvector"];

/// Decides whether this is a JSON function of PostgreSQL that Niwaki does not have.
pub fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.contains(&name)
}

/// The functions that make rows of objects.
pub(super) const RECORDS: &[Function] = records::FUNCTIONS;

/// The functions that take their arguments as one array.
pub(super) const VARIADIC: &[Function] = functions! {
    "json_build_array" (ARRAY) JSON nullable single stable Context(build::json_array_of);
    "jsonb_build_array" (ARRAY) JSONB nullable single stable Context(build::jsonb_array_of);
    "json_build_object" (ARRAY) JSON nullable single stable Context(build::json_object_of);
    "jsonb_build_object" (ARRAY) JSONB nullable single stable Context(build::jsonb_object_of);
    "jsonb_delete" (JSONB, TEXTS) JSONB strict single immutable Binary(edit::delete_keys);
    "json_extract_path" (JSON, TEXTS) JSON strict single immutable Binary(access::path);
    "jsonb_extract_path" (JSONB, TEXTS) JSONB strict single immutable Binary(access::path);
    "json_extract_path_text" (JSON, TEXTS) TEXT strict single immutable Binary(access::path_text);
    "jsonb_extract_path_text" (JSONB, TEXTS) TEXT strict single immutable Binary(access::path_text);
};

pub(super) const OPERATORS: &[Function] = functions! {
    "->" (JSON, TEXT) JSON strict single immutable Binary(access::field);
    "->" (JSON, INT4) JSON strict single immutable Binary(access::item);
    "->" (JSONB, TEXT) JSONB strict single immutable Binary(access::field);
    "->" (JSONB, INT4) JSONB strict single immutable Binary(access::item);
    "->>" (JSON, TEXT) TEXT strict single immutable Binary(access::field_text);
    "->>" (JSON, INT4) TEXT strict single immutable Binary(access::item_text);
    "->>" (JSONB, TEXT) TEXT strict single immutable Binary(access::field_text);
    "->>" (JSONB, INT4) TEXT strict single immutable Binary(access::item_text);
    "#>" (JSON, TEXTS) JSON strict single immutable Binary(access::path);
    "#>" (JSONB, TEXTS) JSONB strict single immutable Binary(access::path);
    "#>>" (JSON, TEXTS) TEXT strict single immutable Binary(access::path_text);
    "#>>" (JSONB, TEXTS) TEXT strict single immutable Binary(access::path_text);
    "@>" (JSONB, JSONB) BOOL strict single immutable Binary(access::contains);
    "<@" (JSONB, JSONB) BOOL strict single immutable Binary(access::contained);
    "?" (JSONB, TEXT) BOOL strict single immutable Binary(access::exists);
    "?|" (JSONB, TEXTS) BOOL strict single immutable Binary(access::exists_any);
    "?&" (JSONB, TEXTS) BOOL strict single immutable Binary(access::exists_all);
    "||" (JSONB, JSONB) JSONB strict single immutable Binary(edit::concat);
    "-" (JSONB, TEXT) JSONB strict single immutable Binary(edit::delete_key);
    "-" (JSONB, INT4) JSONB strict single immutable Binary(edit::delete_item);
    "-" (JSONB, TEXTS) JSONB strict single immutable Binary(edit::delete_keys);
    "@?" (JSONB, JSONPATH) BOOL strict single immutable Context(path::exists_operator);
    "@@" (JSONB, JSONPATH) BOOL strict single immutable Context(path::match_operator);
    "#-" (JSONB, TEXTS) JSONB strict single immutable Binary(edit::delete_path);
};

pub(super) const FUNCTIONS: &[Function] = functions! {
    "json_typeof" (JSON) TEXT strict single immutable Unary(access::type_of);
    "jsonb_typeof" (JSONB) TEXT strict single immutable Unary(access::type_of);
    "json_array_length" (JSON) INT4 strict single immutable Unary(access::array_length);
    "jsonb_array_length" (JSONB) INT4 strict single immutable Unary(access::array_length);
    "json_object_field" (JSON, TEXT) JSON strict single immutable Binary(access::field);
    "jsonb_object_field" (JSONB, TEXT) JSONB strict single immutable Binary(access::field);
    "json_object_field_text" (JSON, TEXT) TEXT strict single immutable Binary(access::field_text);
    "jsonb_object_field_text" (JSONB, TEXT) TEXT strict single immutable Binary(access::field_text);
    "json_array_element" (JSON, INT4) JSON strict single immutable Binary(access::item);
    "jsonb_array_element" (JSONB, INT4) JSONB strict single immutable Binary(access::item);
    "json_array_element_text" (JSON, INT4) TEXT strict single immutable Binary(access::item_text);
    "jsonb_array_element_text" (JSONB, INT4) TEXT strict single immutable Binary(access::item_text);
    "json_extract_path" (JSON, TEXT) JSON strict variadic immutable Pure(access::steps);
    "jsonb_extract_path" (JSONB, TEXT) JSONB strict variadic immutable Pure(access::steps);
    "json_extract_path_text" (JSON, TEXT) TEXT strict variadic immutable Pure(access::steps_text);
    "jsonb_extract_path_text" (JSONB, TEXT) TEXT strict variadic immutable Pure(access::steps_text);
    "jsonb_contains" (JSONB, JSONB) BOOL strict single immutable Binary(access::contains);
    "jsonb_contained" (JSONB, JSONB) BOOL strict single immutable Binary(access::contained);
    "jsonb_exists" (JSONB, TEXT) BOOL strict single immutable Binary(access::exists);
    "jsonb_exists_any" (JSONB, TEXTS) BOOL strict single immutable Binary(access::exists_any);
    "jsonb_exists_all" (JSONB, TEXTS) BOOL strict single immutable Binary(access::exists_all);
    "json_object_keys" (JSON) TEXT strict single immutable Set(expand::keys);
    "jsonb_object_keys" (JSONB) TEXT strict single immutable Set(expand::keys);
    "json_array_elements" (JSON) JSON strict single immutable Set(expand::elements);
    "jsonb_array_elements" (JSONB) JSONB strict single immutable Set(expand::elements);
    "json_array_elements_text" (JSON) TEXT strict single immutable Set(expand::elements_text);
    "jsonb_array_elements_text" (JSONB) TEXT strict single immutable Set(expand::elements_text);
    "json_each" (JSON) RECORD strict single immutable Rows(&expand::EACH_JSON);
    "jsonb_each" (JSONB) RECORD strict single immutable Rows(&expand::EACH_JSONB);
    "json_each_text" (JSON) RECORD strict single immutable Rows(&expand::EACH_JSON_TEXT);
    "jsonb_each_text" (JSONB) RECORD strict single immutable Rows(&expand::EACH_JSONB_TEXT);
    "to_json" (ELEMENT) JSON strict single stable Typed(build::to_json);
    "to_jsonb" (ELEMENT) JSONB strict single stable Typed(build::to_jsonb);
    "array_to_json" (ARRAY) JSON strict single stable Typed(build::array_to_json);
    "array_to_json" (ARRAY, BOOL) JSON strict single stable Typed(build::array_to_json);
    "row_to_json" (RECORD) JSON strict single stable Typed(build::row_to_json);
    "row_to_json" (RECORD, BOOL) JSON strict single stable Typed(build::row_to_json);
    "json_build_array" () JSON nullable single stable Typed(build::json_array);
    "json_build_array" (ANY) JSON nullable variadic stable Typed(build::json_array);
    "jsonb_build_array" () JSONB nullable single stable Typed(build::jsonb_array);
    "jsonb_build_array" (ANY) JSONB nullable variadic stable Typed(build::jsonb_array);
    "json_build_object" () JSON nullable single stable Typed(build::json_object);
    "json_build_object" (ANY) JSON nullable variadic stable Typed(build::json_object);
    "jsonb_build_object" () JSONB nullable single stable Typed(build::jsonb_object);
    "jsonb_build_object" (ANY) JSONB nullable variadic stable Typed(build::jsonb_object);
    "json_object" (TEXTS) JSON strict single immutable Pure(build::json_of_texts);
    "json_object" (TEXTS, TEXTS) JSON strict single immutable Pure(build::json_of_texts);
    "jsonb_object" (TEXTS) JSONB strict single immutable Pure(build::jsonb_of_texts);
    "jsonb_object" (TEXTS, TEXTS) JSONB strict single immutable Pure(build::jsonb_of_texts);
    "json_strip_nulls" (JSON) JSON strict single immutable Unary(edit::strip_nulls);
    "jsonb_strip_nulls" (JSONB) JSONB strict single immutable Unary(edit::strip_nulls);
    "jsonb_pretty" (JSONB) TEXT strict single immutable Unary(edit::pretty);
    "jsonb_concat" (JSONB, JSONB) JSONB strict single immutable Binary(edit::concat);
    "jsonb_delete" (JSONB, TEXT) JSONB strict single immutable Binary(edit::delete_key);
    "jsonb_delete" (JSONB, TEXT) JSONB nullable variadic immutable Pure(edit::delete_each);
    "jsonb_delete" (JSONB, INT4) JSONB strict single immutable Binary(edit::delete_item);
    "jsonb_delete_path" (JSONB, TEXTS) JSONB strict single immutable Binary(edit::delete_path);
    "jsonb_set" (JSONB, TEXTS, JSONB) JSONB strict single immutable Pure(edit::set);
    "jsonb_set" (JSONB, TEXTS, JSONB, BOOL) JSONB strict single immutable Pure(edit::set);
    "jsonb_set_lax" (JSONB, TEXTS, JSONB) JSONB nullable single immutable Pure(edit::set_lax);
    "jsonb_set_lax" (JSONB, TEXTS, JSONB, BOOL) JSONB nullable single immutable Pure(edit::set_lax);
    "jsonb_set_lax" (JSONB, TEXTS, JSONB, BOOL, TEXT) JSONB nullable single immutable Pure(edit::set_lax);
    "jsonb_insert" (JSONB, TEXTS, JSONB) JSONB strict single immutable Pure(edit::insert);
    "jsonb_insert" (JSONB, TEXTS, JSONB, BOOL) JSONB strict single immutable Pure(edit::insert);
    "jsonb_path_exists" (JSONB, JSONPATH) BOOL strict single immutable Context(path::exists);
    "jsonb_path_exists" (JSONB, JSONPATH, JSONB) BOOL strict single immutable Context(path::exists);
    "jsonb_path_exists" (JSONB, JSONPATH, JSONB, BOOL) BOOL strict single immutable Context(path::exists);
    "jsonb_path_match" (JSONB, JSONPATH) BOOL strict single immutable Context(path::matches);
    "jsonb_path_match" (JSONB, JSONPATH, JSONB) BOOL strict single immutable Context(path::matches);
    "jsonb_path_match" (JSONB, JSONPATH, JSONB, BOOL) BOOL strict single immutable Context(path::matches);
    "jsonb_path_query" (JSONB, JSONPATH) JSONB strict single immutable Set(path::query);
    "jsonb_path_query" (JSONB, JSONPATH, JSONB) JSONB strict single immutable Set(path::query);
    "jsonb_path_query" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single immutable Set(path::query);
    "jsonb_path_query_array" (JSONB, JSONPATH) JSONB strict single immutable Context(path::query_array);
    "jsonb_path_query_array" (JSONB, JSONPATH, JSONB) JSONB strict single immutable Context(path::query_array);
    "jsonb_path_query_array" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single immutable Context(path::query_array);
    "jsonb_path_query_first" (JSONB, JSONPATH) JSONB strict single immutable Context(path::query_first);
    "jsonb_path_query_first" (JSONB, JSONPATH, JSONB) JSONB strict single immutable Context(path::query_first);
    "jsonb_path_query_first" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single immutable Context(path::query_first);
    "jsonb_path_exists_tz" (JSONB, JSONPATH) BOOL strict single stable Context(path::exists);
    "jsonb_path_exists_tz" (JSONB, JSONPATH, JSONB) BOOL strict single stable Context(path::exists);
    "jsonb_path_exists_tz" (JSONB, JSONPATH, JSONB, BOOL) BOOL strict single stable Context(path::exists);
    "jsonb_path_match_tz" (JSONB, JSONPATH) BOOL strict single stable Context(path::matches);
    "jsonb_path_match_tz" (JSONB, JSONPATH, JSONB) BOOL strict single stable Context(path::matches);
    "jsonb_path_match_tz" (JSONB, JSONPATH, JSONB, BOOL) BOOL strict single stable Context(path::matches);
    "jsonb_path_query_tz" (JSONB, JSONPATH) JSONB strict single stable Set(path::query);
    "jsonb_path_query_tz" (JSONB, JSONPATH, JSONB) JSONB strict single stable Set(path::query);
    "jsonb_path_query_tz" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single stable Set(path::query);
    "jsonb_path_query_array_tz" (JSONB, JSONPATH) JSONB strict single stable Context(path::query_array);
    "jsonb_path_query_array_tz" (JSONB, JSONPATH, JSONB) JSONB strict single stable Context(path::query_array);
    "jsonb_path_query_array_tz" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single stable Context(path::query_array);
    "jsonb_path_query_first_tz" (JSONB, JSONPATH) JSONB strict single stable Context(path::query_first);
    "jsonb_path_query_first_tz" (JSONB, JSONPATH, JSONB) JSONB strict single stable Context(path::query_first);
    "jsonb_path_query_first_tz" (JSONB, JSONPATH, JSONB, BOOL) JSONB strict single stable Context(path::query_first);
    "jsonb_path_exists_opr" (JSONB, JSONPATH) BOOL strict single immutable Context(path::exists_operator);
    "jsonb_path_match_opr" (JSONB, JSONPATH) BOOL strict single immutable Context(path::match_operator);
};
