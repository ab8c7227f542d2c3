//! Changes of partitioned tables, and of partitions by their own names.

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Oid, Relation};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{ConflictPlan, LeafRules, ModifyKind, WithinBound};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::analyze::{Analyzer, table_expression};

/// Expressions over a table's own row: generated columns by position, CHECK constraints by name.
type RowRules = (Vec<(usize, Expr)>, Vec<(String, Expr)>);

/// Replaces `tableoid`, which a new row lacks, by the table's OID.
fn name_table(expr: &mut Expr, relation: &Relation) {
    let tableoid = relation.columns.len() + 1;
    if matches!(expr.kind, ExprKind::Slot { depth: 0, slot } if slot == tableoid) {
        expr.kind = ExprKind::Const(Datum::Oid(relation.oid.0));
    }
    expr.for_each_child_mut(&mut |child| name_table(child, relation));
}

impl Analyzer<'_> {
    /// Returns the generated columns and the CHECK constraints of a table, for its new rows.
    pub(crate) fn row_rules(&self, relation: &Arc<Relation>) -> Result<RowRules> {
        let (mut generated, mut checks) = (Vec::new(), Vec::new());
        for (number, column) in relation.columns.iter().enumerate() {
            if let (true, false, Some(text)) = (column.generated, column.dropped, &column.default) {
                let target = Some((column.column_type(), column.name.as_str()));
                let over = Some(relation);
                generated.push((number, table_expression(text, over, self.context, target)?));
            }
        }
        for check in &relation.checks {
            let mut condition =
                table_expression(&check.expression, Some(relation), self.context, None)?;
            name_table(&mut condition, relation);
            checks.push((check.name.clone(), condition));
        }
        Ok((generated, checks))
    }

    /// Returns the same for each leaf of a partitioned table.
    pub(crate) fn leaf_rules(
        &self,
        relation: &Arc<Relation>,
        kind: ModifyKind,
    ) -> Result<Vec<LeafRules>> {
        let Some(partitions) = &relation.partitions else { return Ok(Vec::new()) };
        let mut rules = Vec::with_capacity(partitions.leaves.len());
        for leaf in &partitions.leaves {
            let (generated, checks) = match kind {
                ModifyKind::Delete => Default::default(),
                ModifyKind::Insert | ModifyKind::Update => self.row_rules(&leaf.relation)?,
            };
            rules.push(LeafRules { generated, checks, triggers: None, arbiters: Vec::new() });
        }
        Ok(rules)
    }

    /// Returns the partition bounds that new rows of a partition must satisfy.
    pub(crate) fn bounds_of(&self, relation: &Arc<Relation>) -> Result<Vec<WithinBound>> {
        let mut bounds = Vec::new();
        let mut inner = Arc::clone(relation);
        while let Some(of) = &inner.partition_of {
            let parent = self.context.catalog.relation(of.parent);
            let member = parent.and_then(|parent| {
                let members = &parent.partitions.as_ref()?.members;
                members.iter().position(|member| member.relation.oid == inner.oid)
            });
            let (Some(parent), Some(member)) = (parent, member) else {
                return Err(SqlError::internal("a partition of no table"));
            };
            let columns = ColumnMap::between(&parent.definition, &inner.definition);
            bounds.push(WithinBound { parent: Arc::clone(parent), member, columns });
            inner = Arc::clone(parent);
        }
        Ok(bounds)
    }

    /// Finds for each leaf the arbiter indexes: the parts of the partitioned table's arbiter
    /// indexes.
    pub(crate) fn leaf_arbiters(
        &self,
        relation: &Relation,
        conflict: &ConflictPlan,
        rules: &mut [LeafRules],
    ) -> Result<()> {
        let chosen: Vec<Oid> =
            conflict.arbiters.iter().map(|index| relation.indexes[*index].oid).collect();
        let leaves = relation.partitions.iter().flat_map(|partitions| &partitions.leaves);
        for (leaf, rules) in leaves.zip(rules) {
            for (position, index) in leaf.relation.indexes.iter().enumerate() {
                let decides = if conflict.inferred {
                    self.is_part(index.definition.part_of, &chosen)
                } else {
                    index.definition.unique && index.definition.ready
                };
                if decides {
                    rules.arbiters.push(position);
                }
            }
        }
        Ok(())
    }

    /// Returns whether an index, or an index above it, is among `of`.
    fn is_part(&self, index: Option<Oid>, of: &[Oid]) -> bool {
        let Some(index) = index else { return false };
        let above = self.context.catalog.relation(index).and_then(|found| found.index.as_ref());
        of.contains(&index) || self.is_part(above.and_then(|above| above.part_of), of)
    }
}
