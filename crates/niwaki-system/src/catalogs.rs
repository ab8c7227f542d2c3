//! `pg_catalog` and `information_schema`: every relation of PostgreSQL 15, with its columns, over
//! the database's catalog.
//!
//! A relation without a source of rows is empty, because the database has no such objects. A
//! relation whose objects exist but cannot be shown yet is refused.

use niwaki_catalog::{BuiltinColumn, BuiltinRelation, Relation, builtin_relations};
use niwaki_types::TypeOid;

use crate::constraints;
use crate::depend;
use crate::descriptions;
use crate::information::composites;
use crate::information::domains;
use crate::information::information_schema;
use crate::information_constraints;
use crate::live_views;
use crate::pg_class::objects;
use crate::pg_class::partitions;
use crate::pg_class::relations;
use crate::pg_class::routines;
use crate::stored_types;
use crate::system_relation::{Computed, Rows, view};
use crate::types;

/// Relations of `pg_catalog` whose rows are computed from the catalog.
pub(crate) const CATALOGS: &[&Computed] = &[
    &relations::PG_CLASS,
    &relations::PG_ATTRIBUTE,
    &relations::PG_ATTRDEF,
    &relations::PG_INDEX,
    &constraints::PG_CONSTRAINT,
    &partitions::PG_INHERITS,
    &partitions::PG_PARTITIONED_TABLE,
    &relations::PG_SEQUENCE,
    &relations::PG_REWRITE,
    &depend::PG_DEPEND,
    &types::PG_ENUM,
    &routines::PG_TRIGGER,
    &descriptions::PG_DESCRIPTION,
    &descriptions::PG_SHDESCRIPTION,
    &objects::PG_NAMESPACE,
    &objects::PG_INIT_PRIVS,
    &objects::PG_EXTENSION,
    &objects::PG_AVAILABLE_EXTENSIONS,
    &objects::PG_AVAILABLE_EXTENSION_VERSIONS,
    &objects::PG_DATABASE,
    &objects::PG_DB_ROLE_SETTING,
    &objects::PG_AUTHID,
    &objects::PG_ROLES,
    &objects::PG_USER,
    &objects::PG_SHADOW,
    &objects::PG_GROUP,
    &objects::PG_STAT_ARCHIVER,
    &objects::PG_TABLES,
    &objects::PG_VIEWS,
    &objects::PG_MATVIEWS,
    &objects::PG_INDEXES,
    &objects::PG_SEQUENCES,
    &objects::PG_STATS,
];

/// Relations of `information_schema` whose rows are computed from the catalog.
pub(crate) const INFORMATION: &[&Computed] = &[
    &information_schema::TABLES,
    &information_schema::COLUMNS,
    &information_schema::SCHEMATA,
    &information_schema::COLUMN_COLUMN_USAGE,
    &composites::USER_DEFINED_TYPES,
    &composites::ATTRIBUTES,
    &domains::DOMAINS,
    &domains::DOMAIN_CONSTRAINTS,
    &domains::DOMAIN_UDT_USAGE,
    &domains::COLUMN_DOMAIN_USAGE,
    &information_constraints::TABLE_CONSTRAINTS,
    &information_constraints::CHECK_CONSTRAINTS,
    &information_constraints::REFERENTIAL_CONSTRAINTS,
    &information_constraints::KEY_COLUMN_USAGE,
    &information_constraints::CONSTRAINT_COLUMN_USAGE,
    &information_constraints::CONSTRAINT_TABLE_USAGE,
    &information_schema::SEQUENCES,
    &routines::TRIGGERS,
    &routines::TRIGGERED_UPDATE_COLUMNS,
    &routines::ROUTINES,
    &information_schema::VIEWS,
    &information_schema::VIEW_TABLE_USAGE,
    &information_schema::VIEW_COLUMN_USAGE,
    &information_schema::TABLE_PRIVILEGES,
    &information_schema::ROLE_TABLE_GRANTS,
    &information_schema::COLUMN_PRIVILEGES,
    &information_schema::ROLE_COLUMN_GRANTS,
    &information_schema::COLLATIONS,
    &information_schema::COLLATION_CHARACTER_SETS,
    &information_schema::APPLICABLE_ROLES,
    &information_schema::CATALOG_NAME,
    &information_schema::ENABLED_ROLES,
    &information_schema::CHARACTER_SETS,
];

/// Catalogs whose recorded rows are all shown.
pub(crate) const RECORDED: &[&str] = &[
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_cast",
    "pg_collation",
    "pg_opclass",
    "pg_opfamily",
    "pg_range",
    "pg_tablespace",
];

/// Relations that are refused: in PostgreSQL they are never empty, whatever the database holds or
/// does.
pub(crate) const REFUSED: &[&str] = &[
    "pg_aggregate",
    "pg_backend_memory_contexts",
    "pg_config",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_shmem_allocations",
    "pg_stat_database_conflicts",
    "pg_stat_recovery_prefetch",
    "pg_stat_slru",
    "pg_stat_sys_indexes",
    "pg_stat_sys_tables",
    "pg_stat_xact_all_tables",
    "pg_stat_xact_sys_tables",
    "pg_stat_xact_user_tables",
    "pg_statio_all_sequences",
    "pg_statio_sys_indexes",
    "pg_statio_sys_sequences",
    "pg_statio_sys_tables",
    "pg_statio_user_sequences",
    "pg_statistic",
    "pg_timezone_abbrevs",
    "data_type_privileges",
    "element_types",
    "sql_features",
    "sql_implementation_info",
    "sql_parts",
    "sql_sizing",
];

/// Returns all system relations, Niwaki's own included.
pub fn all() -> Vec<Relation> {
    builtin_relations().iter().map(builtin).chain(live_views::all()).collect()
}

fn builtin(relation: &'static BuiltinRelation) -> Relation {
    let information = relation.schema != niwaki_catalog::PG_CATALOG;
    let computed = if information { INFORMATION } else { CATALOGS };
    let name = relation.name;
    let rows = if let Some(computed) = computed.iter().find(|computed| computed.name == name) {
        Rows::Computed(computed)
    } else if REFUSED.contains(&name) {
        Rows::Refused(name)
    } else if information {
        Rows::None
    } else if RECORDED.contains(&name) {
        Rows::Recorded(name, |_| true, None)
    } else if name == routines::PG_LANGUAGE.name {
        Rows::Recorded(name, |_| true, Some(&routines::PG_LANGUAGE))
    } else if name == types::PG_TYPE.name {
        Rows::Recorded(name, |_| true, Some(&types::PG_TYPE))
    } else if name == "pg_proc" {
        Rows::Recorded(name, niwaki_sql::is_function_shown, Some(&routines::PG_PROC))
    } else if name == "pg_operator" {
        Rows::Recorded(name, niwaki_sql::is_operator_shown, None)
    } else if let Some((source, columns)) = live_views::source_of(name) {
        Rows::Source(source, columns.iter().map(|(name, _)| *name).collect())
    } else {
        Rows::None
    };
    let more = live_views::more_columns(name);
    let columns: Vec<&BuiltinColumn> = relation.columns.iter().chain(more).collect();
    view(relation.oid, relation.schema, name, &columns, rows)
}

/// Returns the bytes of a value of fixed length, -1 for variable lengths, -2 for an untyped
/// literal. This is `pg_type.typlen`, and the size in a `RowDescription`.
pub fn type_length(oid: TypeOid) -> i16 {
    stored_types::storage(oid).map_or(-1, |kind| kind.length)
}
