//! Names of the kinds of nodes of a syntax tree.

use pg_query::NodeEnum;

/// Makes [`kind_name`] from the list of all kinds. The compiler reports a kind that is missing.
macro_rules! kind_names {
    ($($kind:ident)*) => {
        /// Returns the name that the grammar's documents give to the node's kind: `SelectStmt`.
        pub(crate) fn kind_name(node: &NodeEnum) -> &'static str {
            match node {
                $(NodeEnum::$kind(_) => stringify!($kind),)*
            }
        }
    };
}

kind_names! {
    Alias RangeVar TableFunc IntoClause Var Param Aggref GroupingFunc WindowFunc
    WindowFuncRunCondition MergeSupportFunc SubscriptingRef FuncExpr NamedArgExpr OpExpr
    DistinctExpr NullIfExpr ScalarArrayOpExpr BoolExpr SubLink SubPlan AlternativeSubPlan
    FieldSelect FieldStore RelabelType CoerceViaIo ArrayCoerceExpr ConvertRowtypeExpr
    CollateExpr CaseExpr CaseWhen CaseTestExpr ArrayExpr RowExpr RowCompareExpr CoalesceExpr
    MinMaxExpr SqlvalueFunction XmlExpr JsonFormat JsonReturning JsonValueExpr
    JsonConstructorExpr JsonIsPredicate JsonBehavior JsonExpr JsonTablePath JsonTablePathScan
    JsonTableSiblingJoin NullTest BooleanTest MergeAction CoerceToDomain CoerceToDomainValue
    SetToDefault CurrentOfExpr NextValueExpr InferenceElem ReturningExpr TargetEntry RangeTblRef
    JoinExpr FromExpr OnConflictExpr Query TypeName ColumnRef ParamRef AExpr TypeCast
    CollateClause RoleSpec FuncCall AStar AIndices AIndirection AArrayExpr ResTarget
    MultiAssignRef SortBy WindowDef RangeSubselect RangeFunction RangeTableFunc
    RangeTableFuncCol RangeTableSample ColumnDef TableLikeClause IndexElem DefElem LockingClause
    XmlSerialize PartitionElem PartitionSpec PartitionBoundSpec PartitionRangeDatum PartitionCmd
    RangeTblEntry RtepermissionInfo RangeTblFunction TableSampleClause WithCheckOption
    SortGroupClause GroupingSet WindowClause RowMarkClause WithClause InferClause
    OnConflictClause CtesearchClause CtecycleClause CommonTableExpr MergeWhenClause
    ReturningOption ReturningClause TriggerTransition JsonOutput JsonArgument JsonFuncExpr
    JsonTablePathSpec JsonTable JsonTableColumn JsonKeyValue JsonParseExpr JsonScalarExpr
    JsonSerializeExpr JsonObjectConstructor JsonArrayConstructor JsonArrayQueryConstructor
    JsonAggConstructor JsonObjectAgg JsonArrayAgg RawStmt InsertStmt DeleteStmt UpdateStmt
    MergeStmt SelectStmt SetOperationStmt ReturnStmt PlassignStmt CreateSchemaStmt
    AlterTableStmt AlterTableCmd AtalterConstraint ReplicaIdentityStmt AlterCollationStmt
    AlterDomainStmt GrantStmt ObjectWithArgs AccessPriv GrantRoleStmt AlterDefaultPrivilegesStmt
    CopyStmt VariableSetStmt VariableShowStmt CreateStmt Constraint CreateTableSpaceStmt
    DropTableSpaceStmt AlterTableSpaceOptionsStmt AlterTableMoveAllStmt CreateExtensionStmt
    AlterExtensionStmt AlterExtensionContentsStmt CreateFdwStmt AlterFdwStmt
    CreateForeignServerStmt AlterForeignServerStmt CreateForeignTableStmt CreateUserMappingStmt
    AlterUserMappingStmt DropUserMappingStmt ImportForeignSchemaStmt CreatePolicyStmt
    AlterPolicyStmt CreateAmStmt CreateTrigStmt CreateEventTrigStmt AlterEventTrigStmt
    CreatePlangStmt CreateRoleStmt AlterRoleStmt AlterRoleSetStmt DropRoleStmt CreateSeqStmt
    AlterSeqStmt DefineStmt CreateDomainStmt CreateOpClassStmt CreateOpClassItem
    CreateOpFamilyStmt AlterOpFamilyStmt DropStmt TruncateStmt CommentStmt SecLabelStmt
    DeclareCursorStmt ClosePortalStmt FetchStmt IndexStmt CreateStatsStmt StatsElem
    AlterStatsStmt CreateFunctionStmt FunctionParameter AlterFunctionStmt DoStmt InlineCodeBlock
    CallStmt CallContext RenameStmt AlterObjectDependsStmt AlterObjectSchemaStmt AlterOwnerStmt
    AlterOperatorStmt AlterTypeStmt RuleStmt NotifyStmt ListenStmt UnlistenStmt TransactionStmt
    CompositeTypeStmt CreateEnumStmt CreateRangeStmt AlterEnumStmt ViewStmt LoadStmt
    CreatedbStmt AlterDatabaseStmt AlterDatabaseRefreshCollStmt AlterDatabaseSetStmt DropdbStmt
    AlterSystemStmt ClusterStmt VacuumStmt VacuumRelation ExplainStmt CreateTableAsStmt
    RefreshMatViewStmt CheckPointStmt DiscardStmt LockStmt ConstraintsSetStmt ReindexStmt
    CreateConversionStmt CreateCastStmt CreateTransformStmt PrepareStmt ExecuteStmt
    DeallocateStmt DropOwnedStmt ReassignOwnedStmt AlterTsdictionaryStmt
    AlterTsconfigurationStmt PublicationTable PublicationObjSpec CreatePublicationStmt
    AlterPublicationStmt CreateSubscriptionStmt AlterSubscriptionStmt DropSubscriptionStmt
    Integer Float Boolean String BitString List IntList OidList AConst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_called_as_debug_calls_it() {
        for query in [
            "select 1",
            "values (1)",
            "create table t ()",
            "create role r",
            "load 'x'",
            "do $$ $$",
            "listen a",
            "create extension e",
            "grant select on t to u",
        ] {
            let node = crate::parse::parse(query).unwrap().remove(0).node;
            let debug = format!("{:?}", &*node);
            assert_eq!(debug.split('(').next(), Some(kind_name(&node)), "{query}");
        }
    }
}
