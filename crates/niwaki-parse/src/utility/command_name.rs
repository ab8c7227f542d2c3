//! Names of statements, objects and actions as a user writes them, for refusals.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterExtensionContentsStmt, AlterTableType, CreateRoleStmt, DefineStmt, ObjectType,
    RoleStmtType,
};

/// Returns the name of a statement that Niwaki refuses: `CREATE AGGREGATE`.
pub fn command_name(node: &NodeEnum) -> String {
    if let NodeEnum::AlterObjectDependsStmt(s) = node {
        return format!("ALTER {} DEPENDS ON EXTENSION", object_words(s.object_type));
    }
    let known = creation(node).or_else(|| alteration(node)).or_else(|| other_command(node));
    known.unwrap_or("this kind of statement").to_owned()
}

/// Names the statements that make an object.
fn creation(node: &NodeEnum) -> Option<&'static str> {
    Some(match node {
        NodeEnum::CreateAmStmt(_) => "CREATE ACCESS METHOD",
        NodeEnum::CreateCastStmt(_) => "CREATE CAST",
        NodeEnum::CreateConversionStmt(_) => "CREATE CONVERSION",
        NodeEnum::CreateEventTrigStmt(_) => "CREATE EVENT TRIGGER",
        NodeEnum::CreateFdwStmt(_) => "CREATE FOREIGN DATA WRAPPER",
        NodeEnum::CreateForeignServerStmt(_) => "CREATE SERVER",
        NodeEnum::CreateForeignTableStmt(_) => "CREATE FOREIGN TABLE",
        NodeEnum::CreateOpClassStmt(_) => "CREATE OPERATOR CLASS",
        NodeEnum::CreateOpFamilyStmt(_) => "CREATE OPERATOR FAMILY",
        NodeEnum::CreatePlangStmt(_) => "CREATE LANGUAGE",
        NodeEnum::CreatePolicyStmt(_) => "CREATE POLICY",
        NodeEnum::CreatePublicationStmt(_) => "CREATE PUBLICATION",
        NodeEnum::CreateRangeStmt(_) => "CREATE TYPE AS RANGE",
        NodeEnum::CreateRoleStmt(s) => role(s),
        NodeEnum::CreateStatsStmt(_) => "CREATE STATISTICS",
        NodeEnum::CreateSubscriptionStmt(_) => "CREATE SUBSCRIPTION",
        NodeEnum::CreateTableAsStmt(s) if s.objtype == ObjectType::ObjectMatview as i32 => {
            "CREATE MATERIALIZED VIEW"
        }
        NodeEnum::CreateTableAsStmt(_) => "CREATE TABLE AS",
        NodeEnum::CreateTableSpaceStmt(_) => "CREATE TABLESPACE",
        NodeEnum::CreateTransformStmt(_) => "CREATE TRANSFORM",
        NodeEnum::CreateUserMappingStmt(_) => "CREATE USER MAPPING",
        NodeEnum::DefineStmt(s) => definition(s),
        NodeEnum::RuleStmt(_) => "CREATE RULE",
        _ => return None,
    })
}

/// The grammar has one statement for several kinds of objects.
fn definition(s: &DefineStmt) -> &'static str {
    match ObjectType::try_from(s.kind) {
        Ok(ObjectType::ObjectAggregate) => "CREATE AGGREGATE",
        Ok(ObjectType::ObjectOperator) => "CREATE OPERATOR",
        Ok(ObjectType::ObjectCollation) => "CREATE COLLATION",
        Ok(ObjectType::ObjectTsparser) => "CREATE TEXT SEARCH PARSER",
        Ok(ObjectType::ObjectTsdictionary) => "CREATE TEXT SEARCH DICTIONARY",
        Ok(ObjectType::ObjectTstemplate) => "CREATE TEXT SEARCH TEMPLATE",
        Ok(ObjectType::ObjectTsconfiguration) => "CREATE TEXT SEARCH CONFIGURATION",
        _ => "CREATE TYPE of a base type",
    }
}

fn role(s: &CreateRoleStmt) -> &'static str {
    match RoleStmtType::try_from(s.stmt_type) {
        Ok(RoleStmtType::RolestmtUser) => "CREATE USER",
        Ok(RoleStmtType::RolestmtGroup) => "CREATE GROUP",
        _ => "CREATE ROLE",
    }
}

/// Names the statements that change an object.
fn alteration(node: &NodeEnum) -> Option<&'static str> {
    Some(match node {
        NodeEnum::AlterCollationStmt(_) => "ALTER COLLATION",
        NodeEnum::AlterDatabaseRefreshCollStmt(_) => "ALTER DATABASE REFRESH COLLATION VERSION",
        NodeEnum::AlterDefaultPrivilegesStmt(_) => "ALTER DEFAULT PRIVILEGES",
        NodeEnum::AlterEventTrigStmt(_) => "ALTER EVENT TRIGGER",
        NodeEnum::AlterExtensionContentsStmt(s) => contents(s),
        NodeEnum::AlterExtensionStmt(_) => "ALTER EXTENSION UPDATE",
        NodeEnum::AlterFdwStmt(_) => "ALTER FOREIGN DATA WRAPPER",
        NodeEnum::AlterForeignServerStmt(_) => "ALTER SERVER",
        NodeEnum::AlterOpFamilyStmt(_) => "ALTER OPERATOR FAMILY",
        NodeEnum::AlterOperatorStmt(_) => "ALTER OPERATOR",
        NodeEnum::AlterPolicyStmt(_) => "ALTER POLICY",
        NodeEnum::AlterPublicationStmt(_) => "ALTER PUBLICATION",
        NodeEnum::AlterRoleSetStmt(_) => "ALTER ROLE SET",
        NodeEnum::AlterRoleStmt(_) => "ALTER ROLE",
        NodeEnum::AlterStatsStmt(_) => "ALTER STATISTICS",
        NodeEnum::AlterSubscriptionStmt(_) => "ALTER SUBSCRIPTION",
        NodeEnum::AlterSystemStmt(_) => "ALTER SYSTEM",
        NodeEnum::AlterTableSpaceOptionsStmt(_) => "ALTER TABLESPACE",
        NodeEnum::AlterTsconfigurationStmt(_) => "ALTER TEXT SEARCH CONFIGURATION",
        NodeEnum::AlterTsdictionaryStmt(_) => "ALTER TEXT SEARCH DICTIONARY",
        NodeEnum::AlterTypeStmt(_) => "ALTER TYPE SET",
        NodeEnum::AlterUserMappingStmt(_) => "ALTER USER MAPPING",
        _ => return None,
    })
}

/// The grammar counts: 1 for ADD, and -1 for DROP.
fn contents(s: &AlterExtensionContentsStmt) -> &'static str {
    if s.action < 0 { "ALTER EXTENSION DROP" } else { "ALTER EXTENSION ADD" }
}

/// Names the other statements.
fn other_command(node: &NodeEnum) -> Option<&'static str> {
    Some(match node {
        NodeEnum::CallStmt(_) => "CALL",
        NodeEnum::ClusterStmt(_) => "CLUSTER",
        NodeEnum::DeclareCursorStmt(_) => "DECLARE CURSOR",
        NodeEnum::DoStmt(_) => "DO",
        NodeEnum::DropOwnedStmt(_) => "DROP OWNED",
        NodeEnum::DropRoleStmt(_) => "DROP ROLE",
        NodeEnum::DropSubscriptionStmt(_) => "DROP SUBSCRIPTION",
        NodeEnum::DropTableSpaceStmt(_) => "DROP TABLESPACE",
        NodeEnum::DropUserMappingStmt(_) => "DROP USER MAPPING",
        NodeEnum::GrantStmt(s) if s.is_grant => "GRANT",
        NodeEnum::GrantStmt(_) => "REVOKE",
        NodeEnum::GrantRoleStmt(s) if s.is_grant => "GRANT",
        NodeEnum::GrantRoleStmt(_) => "REVOKE",
        NodeEnum::ImportForeignSchemaStmt(_) => "IMPORT FOREIGN SCHEMA",
        NodeEnum::LoadStmt(_) => "LOAD",
        NodeEnum::ReassignOwnedStmt(_) => "REASSIGN OWNED",
        NodeEnum::RefreshMatViewStmt(_) => "REFRESH MATERIALIZED VIEW",
        NodeEnum::SecLabelStmt(_) => "SECURITY LABEL",
        _ => return None,
    })
}

/// Returns the words for a kind of object, given by its number in the syntax tree.
pub(super) fn object_words(kind: i32) -> &'static str {
    use ObjectType as O;
    match O::try_from(kind).unwrap_or(O::Undefined) {
        O::ObjectAccessMethod => "ACCESS METHOD",
        O::ObjectAggregate => "AGGREGATE",
        O::ObjectCast => "CAST",
        O::ObjectCollation => "COLLATION",
        O::ObjectColumn => "COLUMN",
        O::ObjectConversion => "CONVERSION",
        O::ObjectDatabase => "DATABASE",
        O::ObjectDomain => "DOMAIN",
        O::ObjectDomconstraint | O::ObjectTabconstraint => "CONSTRAINT",
        O::ObjectEventTrigger => "EVENT TRIGGER",
        O::ObjectExtension => "EXTENSION",
        O::ObjectFdw => "FOREIGN DATA WRAPPER",
        O::ObjectForeignServer => "SERVER",
        O::ObjectForeignTable => "FOREIGN TABLE",
        O::ObjectFunction => "FUNCTION",
        O::ObjectIndex => "INDEX",
        O::ObjectLanguage => "LANGUAGE",
        O::ObjectLargeobject => "LARGE OBJECT",
        O::ObjectMatview => "MATERIALIZED VIEW",
        O::ObjectOpclass => "OPERATOR CLASS",
        O::ObjectOperator => "OPERATOR",
        O::ObjectOpfamily => "OPERATOR FAMILY",
        O::ObjectPolicy => "POLICY",
        O::ObjectProcedure => "PROCEDURE",
        O::ObjectPublication => "PUBLICATION",
        O::ObjectRole => "ROLE",
        O::ObjectRoutine => "ROUTINE",
        O::ObjectRule => "RULE",
        O::ObjectSchema => "SCHEMA",
        O::ObjectSequence => "SEQUENCE",
        O::ObjectSubscription => "SUBSCRIPTION",
        O::ObjectStatisticExt => "STATISTICS",
        O::ObjectTable => "TABLE",
        O::ObjectTablespace => "TABLESPACE",
        O::ObjectTransform => "TRANSFORM",
        O::ObjectTrigger => "TRIGGER",
        O::ObjectTsconfiguration => "TEXT SEARCH CONFIGURATION",
        O::ObjectTsdictionary => "TEXT SEARCH DICTIONARY",
        O::ObjectTsparser => "TEXT SEARCH PARSER",
        O::ObjectTstemplate => "TEXT SEARCH TEMPLATE",
        O::ObjectAttribute | O::ObjectType => "TYPE",
        O::ObjectUserMapping => "USER MAPPING",
        O::ObjectView => "VIEW",
        // No statement names these.
        O::Undefined
        | O::ObjectAmop
        | O::ObjectAmproc
        | O::ObjectDefacl
        | O::ObjectDefault
        | O::ObjectParameterAcl
        | O::ObjectPublicationNamespace
        | O::ObjectPublicationRel => "OBJECT",
    }
}

/// Returns the words for an action of ALTER TABLE that Niwaki refuses.
pub(super) fn action_words(action: AlterTableType) -> &'static str {
    use AlterTableType as T;
    match action {
        T::AtSetExpression => "ALTER COLUMN SET EXPRESSION",
        T::AtAlterColumnGenericOptions => "ALTER COLUMN OPTIONS",
        T::AtClusterOn => "CLUSTER ON",
        T::AtSetLogged => "SET LOGGED",
        T::AtSetUnLogged => "SET UNLOGGED",
        T::AtSetAccessMethod => "SET ACCESS METHOD",
        T::AtEnableRule => "ENABLE RULE",
        T::AtEnableAlwaysRule => "ENABLE ALWAYS RULE",
        T::AtEnableReplicaRule => "ENABLE REPLICA RULE",
        T::AtDisableRule => "DISABLE RULE",
        T::AtAddInherit => "INHERIT",
        T::AtDropInherit => "NO INHERIT",
        T::AtAddOf => "OF",
        T::AtDropOf => "NOT OF",
        T::AtReplicaIdentity => "REPLICA IDENTITY",
        T::AtEnableRowSecurity => "ENABLE ROW LEVEL SECURITY",
        T::AtDisableRowSecurity => "DISABLE ROW LEVEL SECURITY",
        T::AtForceRowSecurity => "FORCE ROW LEVEL SECURITY",
        T::AtNoForceRowSecurity => "NO FORCE ROW LEVEL SECURITY",
        T::AtGenericOptions => "OPTIONS",
        T::AtDetachPartitionFinalize => "DETACH PARTITION FINALIZE",
        // The grammar makes no other action that is refused.
        _ => "with this action",
    }
}
