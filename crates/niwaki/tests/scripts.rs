//! Statements on tables and their results, recorded from PostgreSQL 15.
//!
//! Each script runs twice: in the first database, and in one made with CREATE DATABASE. DEFERRABLE
//! keys were once enforced in the first only. Numbers that carry a database lost it on the way, and
//! lookups by these numbers failed. Now the numbers have a type of their own (`TableId`).

mod common;
#[path = "../../niwaki-sql/tests/script/mod.rs"]
mod script;

use common::{run, run_told};
use niwaki::{Database, Session};

/// Name of the database that is not the first. No script has this word.
const OTHER: &str = "not_the_first";

fn check(name: &str, script: &str) {
    check_by(name, script, run);
}

/// Does the same as [`check`] for scripts whose answers also have tags and notices.
fn check_told(name: &str, script: &str) {
    check_by(name, script, run_told);
}

fn check_by(name: &str, script: &str, answer: impl Fn(&mut Session, &str) -> String) {
    in_first(name, script, &answer);
    let database = Database::in_memory_without_threads().unwrap();
    database.session().execute(&*format!("create database {OTHER}"), ()).unwrap();
    let mut session = database.session_as("postgres", OTHER, &[]).unwrap();
    // Only the name of the database may differ.
    script::check(&format!("{name}, in another database"), script, |statement| {
        answer(&mut session, statement).replace(OTHER, "postgres")
    });
}

fn in_first(name: &str, script: &str, answer: impl Fn(&mut Session, &str) -> String) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    script::check(name, script, |statement| answer(&mut session, statement));
}

#[test]
fn tables() {
    check("tables", include_str!("../testscripts/tables.test"));
}

#[test]
fn indexes() {
    check("indexes", include_str!("../testscripts/indexes.test"));
}

#[test]
fn plans() {
    check("plans", include_str!("../testscripts/plans.test"));
}

#[test]
fn equal_columns() {
    check("equal_columns", include_str!("../testscripts/equal_columns.test"));
}

#[test]
fn queries_asked_once() {
    check("queries_asked_once", include_str!("../testscripts/queries_asked_once.test"));
}

#[test]
fn values_too_long() {
    check("values_too_long", include_str!("../testscripts/values_too_long.test"));
}

#[test]
fn interrupts_by_work() {
    check("interrupts_by_work", include_str!("../testscripts/interrupts_by_work.test"));
}

#[test]
fn value_lists() {
    check("value_lists", include_str!("../testscripts/value_lists.test"));
}

#[test]
fn derived_conditions() {
    check("derived_conditions", include_str!("../testscripts/derived_conditions.test"));
}

#[test]
fn ordered_sets() {
    check("ordered_sets", include_str!("../testscripts/ordered_sets.test"));
}

#[test]
fn several_columns() {
    check("several_columns", include_str!("../testscripts/several_columns.test"));
}

#[test]
fn json_records() {
    check("json_records", include_str!("../testscripts/json_records.test"));
}

#[test]
fn order_left_out() {
    check("order_left_out", include_str!("../testscripts/order_left_out.test"));
}

#[test]
fn custom_plans() {
    check("custom_plans", include_str!("../testscripts/custom_plans.test"));
}

#[test]
fn distinct_on_ordered() {
    check("distinct_on_ordered", include_str!("../testscripts/distinct_on_ordered.test"));
}

#[test]
fn partial_index_only() {
    check("partial_index_only", include_str!("../testscripts/partial_index_only.test"));
}

#[test]
fn databases() {
    // The script concerns the first database and others. Its answers are true of a session in the
    // first.
    in_first("databases", include_str!("../testscripts/databases.test"), run);
}

#[test]
fn extremes() {
    check("extremes", include_str!("../testscripts/extremes.test"));
}

#[test]
fn presorted() {
    check("presorted", include_str!("../testscripts/presorted.test"));
}

#[test]
fn column_statistics() {
    check("column_statistics", include_str!("../testscripts/column_statistics.test"));
}

#[test]
fn read_only_temporary() {
    check("read_only_temporary", include_str!("../testscripts/read_only_temporary.test"));
}

#[test]
fn catalog() {
    check("catalog", include_str!("../testscripts/catalog.test"));
}

#[test]
fn shown_syntax() {
    check("shown_syntax", include_str!("../testscripts/shown_syntax.test"));
}

#[test]
fn collations() {
    check("collations", include_str!("../testscripts/collations.test"));
}

#[test]
fn casts_in_views() {
    check("casts_in_views", include_str!("../testscripts/casts_in_views.test"));
}

#[test]
fn derived_collations() {
    check("derived_collations", include_str!("../testscripts/derived_collations.test"));
}

#[test]
fn letters_of_collations() {
    check("letters_of_collations", include_str!("../testscripts/letters_of_collations.test"));
}

#[test]
fn system_catalogs() {
    check("system_catalogs", include_str!("../testscripts/system_catalogs.test"));
}

#[test]
fn columns() {
    check("columns", include_str!("../testscripts/columns.test"));
}

#[test]
fn merge() {
    check("merge.test", include_str!("../testscripts/merge.test"));
}

#[test]
fn merge_rows() {
    check("merge_rows.test", include_str!("../testscripts/merge_rows.test"));
}

#[test]
fn create_table_as() {
    check("create_table_as", include_str!("../testscripts/create_table_as.test"));
}

#[test]
fn fields_as_functions() {
    check("fields_as_functions", include_str!("../testscripts/fields_as_functions.test"));
}

#[test]
fn or_of_ands() {
    check("or_of_ands.test", include_str!("../testscripts/or_of_ands.test"));
}

#[test]
fn partitions() {
    check("partitions", include_str!("../testscripts/partitions.test"));
}

#[test]
fn foreign_keys_of_partitions() {
    let script = include_str!("../testscripts/foreign_keys_of_partitions.test");
    check("foreign_keys_of_partitions.test", script);
}

#[test]
fn triggers_of_partitions() {
    check(
        "triggers_of_partitions.test",
        include_str!("../testscripts/triggers_of_partitions.test"),
    );
}

#[test]
fn system_columns_of_constraints() {
    let script = include_str!("../testscripts/system_columns_of_constraints.test");
    check("system_columns_of_constraints.test", script);
}

#[test]
fn similar_names() {
    check("similar_names.test", include_str!("../testscripts/similar_names.test"));
}

#[test]
fn partition_orders() {
    check("partition_orders", include_str!("../testscripts/partition_orders.test"));
}

#[test]
fn partition_only() {
    check("partition_only", include_str!("../testscripts/partition_only.test"));
}

#[test]
fn partition_index_only() {
    check("partition_index_only", include_str!("../testscripts/partition_index_only.test"));
}

#[test]
fn partition_alter() {
    check("partition_alter", include_str!("../testscripts/partition_alter.test"));
}

#[test]
fn partition_analyze() {
    check("partition_analyze", include_str!("../testscripts/partition_analyze.test"));
}

#[test]
fn partition_conflicts() {
    check("partition_conflicts", include_str!("../testscripts/partition_conflicts.test"));
}

#[test]
fn partition_constraints() {
    check("partition_constraints", include_str!("../testscripts/partition_constraints.test"));
}

#[test]
fn partition_definitions() {
    check("partition_definitions", include_str!("../testscripts/partition_definitions.test"));
}

#[test]
fn partition_hash() {
    check("partition_hash", include_str!("../testscripts/partition_hash.test"));
}

#[test]
fn partition_rows() {
    check("partition_rows", include_str!("../testscripts/partition_rows.test"));
}

#[test]
fn partition_plans() {
    check("partition_plans", include_str!("../testscripts/partition_plans.test"));
}

#[test]
fn volatile_targets() {
    check("volatile_targets", include_str!("../testscripts/volatile_targets.test"));
}

#[test]
fn zone_abbreviations() {
    check("zone_abbreviations", include_str!("../testscripts/zone_abbreviations.test"));
}

#[test]
fn array_keys() {
    check("array_keys", include_str!("../testscripts/array_keys.test"));
}

#[test]
fn index_definitions() {
    check("index_definitions", include_str!("../testscripts/index_definitions.test"));
}

#[test]
fn deferred_constraints() {
    check("deferred_constraints", include_str!("../testscripts/deferred_constraints.test"));
}

#[test]
fn index_maintenance() {
    check("index_maintenance", include_str!("../testscripts/index_maintenance.test"));
}

#[test]
fn vacuum() {
    check("vacuum", include_str!("../testscripts/vacuum.test"));
}

#[test]
fn bitmaps() {
    check("bitmaps", include_str!("../testscripts/bitmaps.test"));
}

#[test]
fn index_only() {
    check("index_only", include_str!("../testscripts/index_only.test"));
}

#[test]
fn on_conflict() {
    check("on_conflict", include_str!("../testscripts/on_conflict.test"));
}

#[test]
fn temporary() {
    check_by("temporary", include_str!("../testscripts/temporary.test"), |session, statement| {
        // The answers were recorded in a session whose temporary schema was the third.
        let own = format!("pg_temp_{}", session.id());
        run(session, statement).replace(&own, "pg_temp_3")
    });
}

#[test]
fn time_settings() {
    check("time_settings", include_str!("../testscripts/time_settings.test"));
}

#[test]
fn large_values() {
    check("large_values", include_str!("../testscripts/large_values.test"));
}

#[test]
fn uuid_and_time() {
    check("uuid_and_time", include_str!("../testscripts/uuid_and_time.test"));
}

#[test]
fn json_tables() {
    check("json_tables", include_str!("../testscripts/json_tables.test"));
}

#[test]
fn grouping_sets() {
    check("grouping_sets", include_str!("../testscripts/grouping_sets.test"));
}

#[test]
fn windows() {
    check("windows", include_str!("../testscripts/windows.test"));
}

#[test]
fn joins() {
    check("joins", include_str!("../testscripts/joins.test"));
}

#[test]
fn join_plans() {
    check("join_plans", include_str!("../testscripts/join_plans.test"));
}

#[test]
fn array_columns() {
    check("array_columns", include_str!("../testscripts/array_columns.test"));
}

#[test]
fn enums() {
    check("enums", include_str!("../testscripts/enums.test"));
}

#[test]
fn domains() {
    check("domains", include_str!("../testscripts/domains.test"));
}

#[test]
fn domain_definitions() {
    check("domain_definitions", include_str!("../testscripts/domain_definitions.test"));
}

#[test]
fn shown_by_regression_scripts() {
    check(
        "shown_by_regression_scripts",
        include_str!("../testscripts/shown_by_regression_scripts.test"),
    );
}

#[test]
fn row_comparisons() {
    check("row_comparisons", include_str!("../testscripts/row_comparisons.test"));
}

#[test]
fn column_types_of_users() {
    check("column_types_of_users", include_str!("../testscripts/column_types_of_users.test"));
}

#[test]
fn system_types() {
    check("system_types", include_str!("../testscripts/system_types.test"));
}

#[test]
fn foreign_keys() {
    let script = include_str!("../testscripts/foreign_keys.test");
    check_by("foreign_keys", script, |session, statement| {
        // The answers were recorded in a session whose temporary schema was the fourth.
        let own = format!("pg_temp_{}", session.id());
        run(session, statement).replace(&own, "pg_temp_4")
    });
}

#[test]
fn identity_and_generated() {
    check("identity_and_generated", include_str!("../testscripts/identity_and_generated.test"));
}

#[test]
fn alter_table() {
    check("alter_table", include_str!("../testscripts/alter_table.test"));
}

#[test]
fn comments() {
    check("comments", include_str!("../testscripts/comments.test"));
}

#[test]
fn locks_and_channels() {
    check("locks_and_channels", include_str!("../testscripts/locks_and_channels.test"));
}

/// Rollbacks to savepoints released locks that the transaction or the session had, or kept others.
#[test]
fn advisory_locks_and_savepoints() {
    let script = include_str!("../testscripts/advisory_locks_and_savepoints.test");
    check("advisory_locks_and_savepoints", script);
}

#[test]
fn foreign_keys_random() {
    check("foreign_keys_random", include_str!("../testscripts/foreign_keys_random.test"));
}

#[test]
fn views_over() {
    check("views_over", include_str!("../testscripts/views_over.test"));
}

#[test]
fn with_outer() {
    check("with_outer", include_str!("../testscripts/with_outer.test"));
}

#[test]
fn recursive() {
    check("recursive", include_str!("../testscripts/recursive.test"));
}

#[test]
fn with_changes() {
    check("with_changes", include_str!("../testscripts/with_changes.test"));
}

#[test]
fn distinct_on() {
    check("distinct_on", include_str!("../testscripts/distinct_on.test"));
}

#[test]
fn views() {
    check("views", include_str!("../testscripts/views.test"));
}

#[test]
fn point_definitions() {
    check("point_definitions", include_str!("../testscripts/point_definitions.test"));
}

#[test]
fn view_definitions() {
    check("view_definitions", include_str!("../testscripts/view_definitions.test"));
}

#[test]
fn updatable_views() {
    check("updatable_views", include_str!("../testscripts/updatable_views.test"));
}

#[test]
fn view_catalogs() {
    check("view_catalogs", include_str!("../testscripts/view_catalogs.test"));
}

#[test]
fn view_plans() {
    check("view_plans", include_str!("../testscripts/view_plans.test"));
}

#[test]
fn composite_values() {
    check("composite_values", include_str!("../testscripts/composite_values.test"));
}

#[test]
fn composite_columns() {
    check("composite_columns", include_str!("../testscripts/composite_columns.test"));
}

#[test]
fn composite_definitions() {
    check("composite_definitions", include_str!("../testscripts/composite_definitions.test"));
}

#[test]
fn triggers() {
    check("triggers", include_str!("../testscripts/triggers.test"));
}

#[test]
fn functions_of_users() {
    check("functions_of_users", include_str!("../testscripts/functions_of_users.test"));
}

#[test]
fn sets_and_records() {
    check("sets_and_records", include_str!("../testscripts/sets_and_records.test"));
}

#[test]
fn dumped() {
    check("dumped", include_str!("../testscripts/dumped.test"));
}

#[test]
fn distinct_in_order() {
    check("distinct_in_order", include_str!("../testscripts/distinct_in_order.test"));
}

#[test]
fn functions_in_sql() {
    check("functions_in_sql", include_str!("../testscripts/functions_in_sql.test"));
}

#[test]
fn functions_of_sets() {
    check("functions_of_sets", include_str!("../testscripts/functions_of_sets.test"));
}

#[test]
fn stored_names() {
    check("stored_names", include_str!("../testscripts/stored_names.test"));
}

#[test]
fn stored_dependencies() {
    check("stored_dependencies", include_str!("../testscripts/stored_dependencies.test"));
}

#[test]
fn cursors() {
    check_told("cursors", include_str!("../testscripts/cursors.test"));
}

#[test]
fn cursors_with_hold() {
    check_told("cursors_with_hold", include_str!("../testscripts/cursors_with_hold.test"));
}

#[test]
fn cursors_and_statements_shown() {
    let script = include_str!("../testscripts/cursors_and_statements_shown.test");
    check_told("cursors_and_statements_shown", script);
}

#[test]
fn create_table_like() {
    check_told("create_table_like", include_str!("../testscripts/create_table_like.test"));
}

#[test]
fn prepared_inside_others() {
    check_told(
        "prepared_inside_others",
        include_str!("../testscripts/prepared_inside_others.test"),
    );
}

#[test]
fn copy_where() {
    check_told("copy_where", include_str!("../testscripts/copy_where.test"));
}

#[test]
fn where_current_of() {
    check_told("where_current_of", include_str!("../testscripts/where_current_of.test"));
}

#[test]
fn cursors_in_use() {
    check_told("cursors_in_use", include_str!("../testscripts/cursors_in_use.test"));
}

#[test]
fn jsonpath_columns() {
    check("jsonpath_columns", include_str!("../testscripts/jsonpath_columns.test"));
}

#[test]
fn stored_names_copied() {
    check("stored_names_copied", include_str!("../testscripts/stored_names_copied.test"));
}

#[test]
fn transaction_modes() {
    check("transaction_modes", include_str!("../testscripts/transaction_modes.test"));
}

#[test]
fn rows_of_queries() {
    check("rows_of_queries", include_str!("../testscripts/rows_of_queries.test"));
}

#[test]
fn views_as_written() {
    check("views_as_written", include_str!("../testscripts/views_as_written.test"));
}

#[test]
fn shown_in_order() {
    check("shown_in_order", include_str!("../testscripts/shown_in_order.test"));
}

#[test]
fn punctuation_in_times() {
    check("punctuation_in_times", include_str!("../testscripts/punctuation_in_times.test"));
}

#[test]
fn sequence_types() {
    check("sequence_types", include_str!("../testscripts/sequence_types.test"));
}

#[test]
fn arrays_of_names() {
    check("arrays_of_names", include_str!("../testscripts/arrays_of_names.test"));
}

#[test]
fn json_of_arrays() {
    check("json_of_arrays", include_str!("../testscripts/json_of_arrays.test"));
}

#[test]
fn unicode_escapes() {
    check("unicode_escapes", include_str!("../testscripts/unicode_escapes.test"));
}

#[test]
fn materialized_views() {
    check_told("materialized_views", include_str!("../testscripts/materialized_views.test"));
}

#[test]
fn materialized_views_changed() {
    let script = include_str!("../testscripts/materialized_views_changed.test");
    check_told("materialized_views_changed", script);
}

#[test]
fn materialized_view_catalogs() {
    let script = include_str!("../testscripts/materialized_view_catalogs.test");
    check_told("materialized_view_catalogs", script);
}

#[test]
fn missing_schemas() {
    check("missing_schemas", include_str!("../testscripts/missing_schemas.test"));
}

#[test]
fn missing_and_passed_over() {
    check_told(
        "missing_and_passed_over",
        include_str!("../testscripts/missing_and_passed_over.test"),
    );
}

#[test]
fn settings_of_applications() {
    check("settings_of_applications", include_str!("../testscripts/settings_of_applications.test"));
}

#[test]
fn times_beyond_ranges() {
    check("times_beyond_ranges", include_str!("../testscripts/times_beyond_ranges.test"));
}

#[test]
fn deferred_keys_of_partitions() {
    check(
        "deferred_keys_of_partitions",
        include_str!("../testscripts/deferred_keys_of_partitions.test"),
    );
}

#[test]
fn definitions_refused() {
    check_told("definitions_refused", include_str!("../testscripts/definitions_refused.test"));
}

#[test]
fn functions_that_change() {
    check_told("functions_that_change", include_str!("../testscripts/functions_that_change.test"));
}

#[test]
fn recursive_functions() {
    check("recursive_functions", include_str!("../testscripts/recursive_functions.test"));
}

#[test]
fn rows_as_arguments() {
    check("rows_as_arguments", include_str!("../testscripts/rows_as_arguments.test"));
}

#[test]
fn assigned_rows() {
    check("assigned_rows", include_str!("../testscripts/assigned_rows.test"));
}

#[test]
fn assigned_values() {
    check("assigned_values", include_str!("../testscripts/assigned_values.test"));
}

#[test]
fn arrays_of_no_type() {
    check("arrays_of_no_type", include_str!("../testscripts/arrays_of_no_type.test"));
}

#[test]
fn json_record_values() {
    check("json_record_values", include_str!("../testscripts/json_record_values.test"));
}

#[test]
fn moment_rules() {
    check("moment_rules", include_str!("../testscripts/moment_rules.test"));
}

#[test]
fn sets_in_order_by() {
    check("sets_in_order_by", include_str!("../testscripts/sets_in_order_by.test"));
}

#[test]
fn pg_lsn() {
    check("pg_lsn", include_str!("../testscripts/pg_lsn.test"));
}

#[test]
fn columns_of_all_types() {
    check("columns_of_all_types", include_str!("../testscripts/columns_of_all_types.test"));
}

#[test]
fn record_images() {
    check("record_images", include_str!("../testscripts/record_images.test"));
}

#[test]
fn triggers_that_call() {
    check_told("triggers_that_call", include_str!("../testscripts/triggers_that_call.test"));
}

#[test]
fn generated_statements() {
    check("generated_statements", include_str!("../testscripts/generated_statements.test"));
}

#[test]
fn generated_constants() {
    check("generated_constants", include_str!("../testscripts/generated_constants.test"));
}

#[test]
fn names_of_types() {
    check("names_of_types", include_str!("../testscripts/names_of_types.test"));
}

#[test]
fn dependencies_of_types() {
    check("dependencies_of_types", include_str!("../testscripts/dependencies_of_types.test"));
}

#[test]
fn definitions_of_dumps() {
    check("definitions_of_dumps", include_str!("../testscripts/definitions_of_dumps.test"));
}

#[test]
fn exists_asked_once() {
    check("exists_asked_once", include_str!("../testscripts/exists_asked_once.test"));
}

#[test]
fn column_sizes() {
    check("column_sizes", include_str!("../testscripts/column_sizes.test"));
}

#[test]
fn one_row_items() {
    check("one_row_items", include_str!("../testscripts/one_row_items.test"));
}

#[test]
fn queries_written_again() {
    check("queries_written_again", include_str!("../testscripts/queries_written_again.test"));
}

#[test]
fn explain_options() {
    check_told("explain_options", include_str!("../testscripts/explain_options.test"));
}

#[test]
fn extensions() {
    check_told("extensions", include_str!("../testscripts/extensions.test"));
}

#[test]
fn names_of_monitoring() {
    check_told("names_of_monitoring", include_str!("../testscripts/names_of_monitoring.test"));
}

#[test]
fn statistics_of_databases() {
    check("statistics_of_databases", include_str!("../testscripts/statistics_of_databases.test"));
}

#[test]
fn own_role() {
    check_told("own_role", include_str!("../testscripts/own_role.test"));
}

#[test]
fn tablespaces() {
    check_told("tablespaces", include_str!("../testscripts/tablespaces.test"));
}

#[test]
fn refused_read_only() {
    check_told("refused_read_only", include_str!("../testscripts/refused_read_only.test"));
}

#[test]
fn identity_of_partitioned() {
    check_told(
        "identity_of_partitioned",
        include_str!("../testscripts/identity_of_partitioned.test"),
    );
}
