//! ALTER COLUMN … TYPE: rewrites the table, unless the stored values stay the same.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, RelationDefinition, RelationStats};
use niwaki_session::{shown_type, shown_with_modifier};
use niwaki_sql::types::format_type;
use niwaki_sql::utility::SequenceOptions;
use niwaki_sql::walk::each_node;
use niwaki_sql::{Result, RowExpression, SqlError, retyped_index_part, type_number};
use niwaki_types::{ColumnType, TypeOid, quote_identifier};
use pg_query::NodeEnum;
use pg_query::protobuf::a_const;

use crate::column_rules::refuse_subquery;
use crate::definer::Definer;
use crate::index::operator_class;
use crate::table::foreign_key;
use crate::table::rewrite::Computed;

impl Definer<'_> {
    pub(crate) fn alter_type(
        &mut self,
        relation: &Arc<Relation>,
        position: usize,
        (to, collation): (ColumnType, Option<Oid>),
        using: Option<&str>,
    ) -> Result<()> {
        let column = relation.columns[position].clone();
        let name = &column.name;
        let from = column.column_type();
        self.refuse_generated_readers(relation, name)?;
        self.refuse_triggers(relation, position)?;
        self.refuse_readers(relation, position)?;
        if column.generated && using.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{name}\" is a generated column.");
            return Err(SqlError::new("42611", message).with_detail(detail));
        }
        if column.identity.is_some()
            && !matches!(to.declared(), TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8)
        {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new("22023", message));
        }
        if let Some(using) = using {
            refuse_subquery(using, "transform expression")?;
        }
        let mut definition = relation.definition.clone();
        definition.columns[position].set_column_type(to);
        definition.columns[position].collation = collation;
        // The relation stays unopened, because only names and types are needed.
        let after = Arc::new(Relation::unopened(definition.clone()));
        let (computed, derived) = self.conversion(relation, &after, position, using)?;
        if !column.generated
            && let Some(default) = &column.default
        {
            let default = self.converted_default(default, &column.name, from, to)?;
            definition.columns[position].default = Some(default);
        }
        self.check_references(&definition)?;
        // The keys and rows of an index with expressions can depend on the collation.
        let state = self.state();
        let collates = |column| state.column_collation(column);
        let same_keys = collates(&column) == collates(&definition.columns[position])
            || relation.indexes.iter().all(|e| e.definition.expressions().next().is_none());
        let same_values =
            using.is_none() && !column.generated && keeps_values(from, to) && same_keys;
        if relation.is_partitioned() {
            // The partitions have the values, and change after the partitioned table.
            self.retype_indexes(relation, &after)?;
            self.update(definition)?;
            return self.check_expressions(relation.oid);
        }
        if same_values {
            definition.stats = RelationStats::default();
            self.update(definition)?;
        } else {
            // Opening the table reads its indexes with the table's new types, so the indexes change
            // first.
            self.retype_indexes(relation, &after)?;
            self.rewrite(relation, definition, &computed, &derived)?;
        }
        if let Some(sequence) = column.sequence.filter(|_| column.identity.is_some()) {
            self.retype_sequence(sequence, to.oid)?;
        }
        self.check_expressions(relation.oid)?;
        let now = self.current(relation.oid)?;
        for check in now.checks.iter().filter(|check| !check.not_valid) {
            self.prove_check(&now, check)?;
        }
        let state = self.state();
        let own = now.foreign_keys.iter().map(|key| key.oid);
        let others = state.foreign_keys_to(relation.oid).iter().copied();
        for key in own.chain(others).collect::<Vec<_>>() {
            if state.foreign_key(key).is_some_and(|(_, key)| !key.not_valid) {
                self.prove_foreign_key(key)?;
            }
        }
        Ok(())
    }

    fn refuse_generated_readers(&mut self, relation: &Relation, name: &str) -> Result<()> {
        for other in relation.columns.iter().filter(|other| other.generated && !other.dropped) {
            let Some(text) = &other.default else { continue };
            if self.session.columns_of_expression(text)?.iter().any(|read| read == name) {
                let message = "cannot alter type of a column used by a generated column";
                let detail =
                    format!("Column \"{name}\" is used by generated column \"{}\".", other.name);
                return Err(SqlError::new("0A000", message).with_detail(detail));
            }
        }
        Ok(())
    }

    /// Returns the expressions that convert values of the column to the new type.
    fn conversion(
        &mut self,
        before: &Arc<Relation>,
        after: &Arc<Relation>,
        position: usize,
        using: Option<&str>,
    ) -> Result<(Computed, Computed)> {
        let column = &after.columns[position];
        let (name, to) = (column.name.as_str(), column.column_type());
        if let (true, Some(text)) = (column.generated, &column.default) {
            let text = text.clone();
            let read = self.session.with_analysis(|context| {
                RowExpression::new(&text, Some(after), (to, name), context)
            })?;
            return Ok((Vec::new(), vec![(position, read)]));
        }
        let plain = quote_identifier(name);
        let text = using.unwrap_or(&plain);
        let read = self.session.with_analysis(|context| {
            RowExpression::written(text, Some(before), (to, name), context)
        });
        let read = read.map_err(|error| {
            if error.sqlstate != "42804" {
                return error;
            }
            let types = self.session.types();
            let shown = shown_type(&types, to.declared());
            match using {
                None => SqlError::new(
                    "42804",
                    format!("column \"{name}\" cannot be cast automatically to type {shown}"),
                )
                .with_hint(format!(
                    "You might need to specify \"USING {plain}::{}\".",
                    shown_with_modifier(&types, to)
                )),
                Some(_) => SqlError::new(
                    "42804",
                    format!(
                        "result of USING clause for column \"{name}\" cannot be cast automatically to type {shown}"
                    ),
                )
                .with_hint("You might need to add an explicit cast."),
            }
        })?;
        Ok((vec![(position, read)], Vec::new()))
    }

    /// Returns the text of the default for the new type. As in PostgreSQL, a literal now has the
    /// old type. The conversion that an expression got when it was defined is forgotten.
    fn converted_default(
        &mut self,
        default: &str,
        name: &str,
        from: ColumnType,
        to: ColumnType,
    ) -> Result<String> {
        let mut root = None;
        each_node(default, |node| {
            root.get_or_insert(matches!(node, NodeEnum::AConst(c)
                if matches!(c.val, Some(a_const::Val::Sval(_)))));
        })?;
        let text = match root {
            Some(true) => {
                let from = type_number(from).unwrap_or_else(|| format_type(from));
                format!("CAST({default} AS {from})")
            }
            _ => default.to_owned(),
        };
        let read = self
            .session
            .with_analysis(|context| RowExpression::new(&text, None, (to, name), context));
        match read {
            Ok(_) => Ok(text),
            Err(error) if error.sqlstate == "42804" => Err(SqlError::new(
                "42804",
                format!(
                    "default for column \"{name}\" cannot be cast automatically to type {}",
                    shown_type(&self.session.types(), to.declared())
                ),
            )),
            Err(error) => Err(error),
        }
    }

    /// Reads expressions and predicates of indexes again with the new types. Their operator classes
    /// must accept the new types.
    fn retype_indexes(&mut self, before: &Relation, after: &Arc<Relation>) -> Result<()> {
        let (state, types) = (self.state(), self.session.types());
        for entry in &before.indexes {
            let keys = entry.definition.key.iter().filter(|key| key.expression.is_none());
            for key in keys {
                operator_class::choose(
                    &state,
                    &types,
                    key.type_oid(after),
                    key.operator_class.as_deref(),
                )?;
            }
            if entry.definition.expressions().next().is_none() {
                continue;
            }
            let mut own = self.definition_to_change(entry.oid)?;
            let Some(index) = &mut own.index else { continue };
            for key in &mut index.key {
                let Some(stored) = &key.expression else { continue };
                let read = self
                    .session
                    .with_analysis(|context| retyped_index_part(stored, false, after, context))?;
                key.expression = Some(read);
            }
            if let Some(stored) = &index.predicate {
                let read = self
                    .session
                    .with_analysis(|context| retyped_index_part(stored, true, after, context))?;
                index.predicate = Some(read);
            }
            self.update(own)?;
        }
        Ok(())
    }

    /// Refuses types that foreign keys cannot compare.
    fn check_references(&mut self, definition: &RelationDefinition) -> Result<()> {
        let (state, types) = (self.state(), self.session.types());
        let table = Relation::unopened(definition.clone());
        let of = |oid: Oid| -> Option<Relation> {
            if oid == definition.oid {
                return Some(Relation::unopened(definition.clone()));
            }
            state.relation(oid).map(|other| Relation::unopened(other.definition.clone()))
        };
        for key in &definition.foreign_keys {
            if let Some(referenced) = of(key.references) {
                foreign_key::refuse_types(key, &table, &referenced, &types)?;
            }
        }
        for oid in state.foreign_keys_to(definition.oid) {
            let Some((other, key)) = state.foreign_key(*oid) else { continue };
            if let Some(other) = of(other.oid) {
                foreign_key::refuse_types(key, &other, &table, &types)?;
            }
        }
        Ok(())
    }

    fn retype_sequence(&mut self, sequence: Oid, to: TypeOid) -> Result<()> {
        let options = SequenceOptions { type_oid: Some(to.0), ..SequenceOptions::default() };
        let relation = self.current(sequence)?;
        self.change_sequence(&relation, &options)
    }
}

/// Returns whether stored values of one type are unchanged as values of the other, in the same
/// order.
fn keeps_values(from: ColumnType, to: ColumnType) -> bool {
    if to.domain.is_some() && to.domain != from.domain {
        return false;
    }
    let (from, to) = (ColumnType { domain: None, ..from }, ColumnType { domain: None, ..to });
    let is_text = |oid| matches!(oid, TypeOid::TEXT | TypeOid::VARCHAR);
    if from == to {
        return true;
    }
    is_text(from.oid)
        && is_text(to.oid)
        && (to.typmod < 0 || (from.oid == to.oid && (0..=to.typmod).contains(&from.typmod)))
}
