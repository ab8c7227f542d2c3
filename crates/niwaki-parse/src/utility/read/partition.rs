//! Partitioning in statements: PARTITION BY, FOR VALUES, ATTACH and DETACH PARTITION.

use niwaki_catalog::PartitionStrategy;
use pg_query::protobuf::{self, PartitionBoundSpec, PartitionSpec};
use pg_query::{Node, NodeEnum};

use super::nodes::{expression_text, relation_name, strings, unexpected};
use crate::collation::collation_named;
use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::utility::statement::{
    AlterCommand, BoundSpec, PartitionBy, PartitionOfSpec, RangeValueSpec,
};

pub(super) fn partition_by(spec: &PartitionSpec, source: &str) -> Result<PartitionBy> {
    let strategy = match protobuf::PartitionStrategy::try_from(spec.strategy) {
        Ok(protobuf::PartitionStrategy::List) => PartitionStrategy::List,
        Ok(protobuf::PartitionStrategy::Range) => PartitionStrategy::Range,
        Ok(protobuf::PartitionStrategy::Hash) => PartitionStrategy::Hash,
        _ => return Err(unexpected("PARTITION BY")),
    };
    let mut columns = Vec::with_capacity(spec.part_params.len());
    for node in &spec.part_params {
        let Some(NodeEnum::PartitionElem(element)) = &node.node else {
            return Err(unexpected("PARTITION BY"));
        };
        let at = position_of(source, element.location);
        if element.name.is_empty() {
            return Err(SqlError::unsupported("an expression in PARTITION BY").with_position(at));
        }
        if !element.opclass.is_empty() {
            let what = "an operator class in PARTITION BY";
            return Err(SqlError::unsupported(what).with_position(at));
        }
        let collation = strings(&element.collation);
        let collation: Vec<&str> = collation.iter().map(String::as_str).collect();
        let collation = match collation[..] {
            [] => None,
            _ => Some(collation_named(&collation).map_err(|e| e.with_position(at))?),
        };
        columns.push((element.name.clone(), collation, at));
    }
    if strategy == PartitionStrategy::List && columns.len() > 1 {
        let message = "cannot use \"list\" partition strategy with more than one column";
        return Err(SqlError::new("42P17", message));
    }
    Ok(PartitionBy { strategy, columns })
}

pub(super) fn bound(spec: &PartitionBoundSpec) -> Result<BoundSpec> {
    if spec.is_default {
        return Ok(BoundSpec::Default);
    }
    match spec.strategy.as_str() {
        "l" => {
            let values = spec.listdatums.iter().map(expression_text);
            Ok(BoundSpec::List(values.collect::<Result<_>>()?))
        }
        "r" => Ok(BoundSpec::Range(edges(&spec.lowerdatums)?, edges(&spec.upperdatums)?)),
        _ => Ok(BoundSpec::Hash(spec.modulus, spec.remainder)),
    }
}

fn edges(nodes: &[Node]) -> Result<Vec<RangeValueSpec>> {
    let edge = |node: &Node| match column_name(node) {
        Some("minvalue") => Ok(RangeValueSpec::Min),
        Some("maxvalue") => Ok(RangeValueSpec::Max),
        _ => Ok(RangeValueSpec::Value(expression_text(node)?)),
    };
    nodes.iter().map(edge).collect()
}

/// Returns the name if an expression is a single name.
fn column_name(node: &Node) -> Option<&str> {
    let Some(NodeEnum::ColumnRef(column)) = &node.node else { return None };
    match column.fields.as_slice() {
        [field] => match &field.node {
            Some(NodeEnum::String(name)) => Some(&name.sval),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn partition_of(
    parents: &[Node],
    spec: &PartitionBoundSpec,
    source: &str,
) -> Result<PartitionOfSpec> {
    let [Node { node: Some(NodeEnum::RangeVar(parent)) }] = parents else {
        return Err(unexpected("PARTITION OF"));
    };
    Ok(PartitionOfSpec { parent: relation_name(Some(parent), source)?, bound: bound(spec)? })
}

pub(super) fn alter_partition(
    command: &protobuf::PartitionCmd,
    attach: bool,
    source: &str,
) -> Result<AlterCommand> {
    let name = relation_name(command.name.as_ref(), source)?;
    if !attach {
        if command.concurrent {
            return Err(SqlError::unsupported("DETACH PARTITION CONCURRENTLY"));
        }
        return Ok(AlterCommand::DetachPartition(name));
    }
    match &command.bound {
        Some(spec) => Ok(AlterCommand::AttachPartition { name, bound: bound(spec)? }),
        None => Ok(AlterCommand::AttachIndex(name)),
    }
}
