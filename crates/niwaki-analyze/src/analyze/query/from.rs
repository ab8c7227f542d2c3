//! FROM: tables, nested queries, functions and joins.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, RelationKind};
use niwaki_env::stack;
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    ItemKind, JoinForm, JoinNode, JoinTree, JoinType, ModifyKind, split_conjuncts,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::tree::Tree;
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::{self, JoinType as JoinWord};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::change::write_view::WriteTarget;
use crate::analyze::expression::json_records::function_of_objects;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Item, ItemColumn, Place, Scope};
use crate::analyze::query::targets::figure_name;

/// The sides of a join whose unmatched rows are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Neither,
    Left,
    Right,
    /// Both sides: a full join.
    All,
}

impl Analyzer<'_> {
    /// Analyzes all FROM items, joined in the order in which they are written.
    pub(crate) fn from_clause(&mut self, nodes: &[Node]) -> Result<Option<JoinTree>> {
        let mut tree: Option<JoinTree> = None;
        for node in nodes {
            let next = self.from_item(node)?;
            tree = Some(match tree {
                None => next,
                Some(left) => JoinTree::inner(left, next),
            });
        }
        Ok(tree)
    }

    pub(crate) fn from_item(&mut self, node: &Node) -> Result<JoinTree> {
        stack::deeper(|| match node.node.as_ref() {
            Some(NodeEnum::RangeVar(var)) => self.range_var(var),
            Some(NodeEnum::RangeSubselect(sub)) => self.range_subselect(sub),
            Some(NodeEnum::RangeFunction(function)) => self.range_function(function),
            Some(NodeEnum::JoinExpr(join)) => self.join(join),
            Some(NodeEnum::RangeTableSample(_)) => Err(SqlError::unsupported("TABLESAMPLE")),
            _ => Err(SqlError::unsupported("this kind of FROM item")),
        })
    }

    /// Refuses a second item of the same name.
    pub(crate) fn check_alias(&self, name: &str) -> Result<()> {
        let taken = self.scopes.last().is_some_and(|scope| {
            !name.is_empty() && scope.items.iter().any(|item| item.name == name)
        });
        if taken {
            return Err(SqlError::new(
                "42712",
                format!("table name \"{name}\" specified more than once"),
            ));
        }
        Ok(())
    }

    fn range_var(&mut self, var: &protobuf::RangeVar) -> Result<JoinTree> {
        let alias = var.alias.as_ref();
        let name = alias.map_or(var.relname.as_str(), |a| a.aliasname.as_str()).to_owned();
        if var.schemaname.is_empty()
            && let Some((kind, columns)) = self.named_query(&var.relname, var.location)?
        {
            self.check_alias(&name)?;
            let columns = self.renamed(columns, alias, &name)?;
            let scope = self.scope()?;
            let start = scope.add_columns(&name, &columns);
            return Ok(scope.add_source(kind, name, start, alias, None));
        }
        let (relation, frozen) =
            if let Some((relation, names)) = self.given_relation(var.location)? {
                (relation, Some(names))
            } else {
                let found = self.find_relation(var);
                (found.map_err(|error| self.hint_at_with(&var.relname, error))?, None)
            };
        self.check_alias(&name)?;
        let oid = relation.oid;
        let schema = alias.is_none().then(|| self.schema_name(relation.schema));
        let mut view = None;
        let (start, kind) = match (relation.kind, &relation.query) {
            (RelationKind::Table | RelationKind::MaterializedView, _) => {
                let relation = self.used_relation(var, relation, TableLockMode::AccessShare);
                let start = self.scope()?.add_relation(&relation, &name, schema);
                (start, ItemKind::Table(relation))
            }
            (RelationKind::View, Some(definition)) => {
                self.note_relation(&relation, TableLockMode::AccessShare);
                let query = self.view_rows(&relation, definition)?;
                let scope = self.scope()?;
                let start = scope.add_columns(&name, &query.columns);
                if let Some(item) = scope.items.last_mut() {
                    item.schema = schema;
                    item.view = Some(Arc::clone(&relation));
                }
                view = Some(Arc::clone(&relation));
                (start, ItemKind::Query(Box::new(query)))
            }
            (RelationKind::View, None) => {
                let start = self.scope()?.add_relation(&relation, &name, schema);
                (start, ItemKind::View(relation))
            }
            (RelationKind::Sequence, _) => {
                let relation = Arc::new(crate::sequence_row::relation_of(&relation));
                let start = self.scope()?.add_relation(&relation, &name, schema);
                (start, ItemKind::View(relation))
            }
            (RelationKind::Index, _) => {
                let message = format!("cannot open relation \"{}\"", relation.name);
                return Err(self
                    .error("42809", message, var.location)
                    .with_detail("This operation is not supported for indexes."));
            }
        };
        match frozen {
            Some(names) => self.freeze_names(&names)?,
            None => self.note_name(var.location, oid)?,
        }
        self.rename_item(alias, &name)?;
        let scope = self.scope()?;
        let tree = scope.add_source(kind, name, start, alias, view);
        if !var.inh {
            scope.note_only();
        }
        Ok(tree)
    }

    /// Renames the newest item's columns to the column names of its alias.
    fn rename_item(&mut self, alias: Option<&protobuf::Alias>, name: &str) -> Result<()> {
        let Some(alias) = alias else { return Ok(()) };
        let names: Vec<String> =
            names_of(&alias.colnames).iter().map(|n| (*n).to_owned()).collect();
        let scope = self.scope()?;
        let Some(item) = scope.items.last_mut() else { return Ok(()) };
        let visible = item.columns.iter().filter(|c| !c.hidden).count();
        if names.len() > visible {
            return Err(SqlError::new(
                "42P10",
                format!(
                    "table \"{name}\" has {visible} columns available but {} columns specified",
                    names.len()
                ),
            ));
        }
        let mut columns = item.columns.iter_mut().filter(|c| !c.hidden);
        for new in names {
            if let Some(column) = columns.next() {
                column.name = new;
            }
        }
        Ok(())
    }

    pub(crate) fn renamed(
        &self,
        mut columns: Vec<ColumnInfo>,
        alias: Option<&protobuf::Alias>,
        name: &str,
    ) -> Result<Vec<ColumnInfo>> {
        let Some(alias) = alias else { return Ok(columns) };
        let names = names_of(&alias.colnames);
        if names.len() > columns.len() {
            return Err(SqlError::new(
                "42P10",
                format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    names.len()
                ),
            ));
        }
        for (column, new) in columns.iter_mut().zip(names) {
            new.clone_into(&mut column.name);
        }
        Ok(columns)
    }

    fn range_subselect(&mut self, sub: &protobuf::RangeSubselect) -> Result<JoinTree> {
        let Some(NodeEnum::SelectStmt(select)) =
            sub.subquery.as_ref().and_then(|node| node.node.as_ref())
        else {
            return Err(SqlError::internal("a FROM item that is no SELECT"));
        };
        let name = sub.alias.as_ref().map_or("", |a| a.aliasname.as_str()).to_owned();
        self.check_alias(&name)?;
        let query = if sub.lateral {
            self.nested_query(select, None)?
        } else {
            // Without LATERAL, the query does not see the items before it.
            let scope = self.scope()?;
            let hidden = std::mem::take(&mut scope.items);
            let before = scope.out_of_sight.len();
            scope.out_of_sight.extend(hidden.iter().map(|item| item.name.clone()));
            let result = self.nested_query(select, None);
            let scope = self.scope()?;
            scope.items = hidden;
            scope.out_of_sight.truncate(before);
            result?
        };
        let columns = self.renamed(query.columns.clone(), sub.alias.as_ref(), &name)?;
        let scope = self.scope()?;
        let start = scope.add_columns(&name, &columns);
        let kind = ItemKind::Query(Box::new(query));
        Ok(scope.add_source(kind, name, start, sub.alias.as_ref(), None))
    }

    fn range_function(&mut self, range: &protobuf::RangeFunction) -> Result<JoinTree> {
        if range.is_rowsfrom || range.functions.len() != 1 {
            return Err(SqlError::unsupported("ROWS FROM"));
        }
        let Some(NodeEnum::List(list)) = range.functions.first().and_then(|n| n.node.as_ref())
        else {
            return Err(SqlError::internal("a function in FROM without a call"));
        };
        let Some(call) = list.items.first() else {
            return Err(SqlError::internal("a function in FROM without a call"));
        };
        if let Some(NodeEnum::FuncCall(unnest)) = &call.node
            && unnest.args.len() > 1
            && matches!(names_of(&unnest.funcname)[..], ["unnest"] | ["pg_catalog", "unnest"])
        {
            return self.unnest_several(range, unnest);
        }
        if let Some(NodeEnum::FuncCall(call)) = &call.node
            && let Some(function) = function_of_objects(call)
        {
            return self.json_records(range, call, function);
        }
        if !range.coldeflist.is_empty() {
            return Err(SqlError::unsupported("a column definition list of this function"));
        }
        let place = self.scope()?.place;
        // The set-returning call is removed from the list again below.
        self.set_place(Place::From)?;
        let sets_before = self.scope()?.sets.len();
        self.from_call = match &call.node {
            Some(NodeEnum::FuncCall(call)) => Some(call.location),
            _ => None,
        };
        let expr = self.expr(call);
        self.from_call = None;
        self.set_place(place)?;
        let expr = expr?;
        let name = match &range.alias {
            Some(alias) => alias.aliasname.clone(),
            None => figure_name(call).unwrap_or_else(|| "?column?".to_owned()),
        };
        self.check_alias(&name)?;
        let (several, own) = match &expr.kind {
            ExprKind::SetReturning(number) => {
                let set = &self.scope()?.sets[*number];
                let found = (set.fields(), set.function.column_name().map(str::to_owned));
                if expr.ty.is_composite() && found.0.is_none() {
                    let what = "a set of composite values in FROM whose fields are to be columns";
                    return Err(self.unsupported(what, expr.location));
                }
                found
            }
            _ => (None, expr.lone_column().map(str::to_owned)),
        };
        let is_lone = several.is_none();
        let mut columns = if let Some(all) = &several {
            all.iter().map(|(name, kind)| ColumnInfo::computed(&**name, *kind)).collect()
        } else {
            // The column of a scalar function takes the alias, if there is one. It has no name of
            // its own.
            let kind = expr.column_type();
            let own = own.as_deref().unwrap_or(&name);
            vec![ColumnInfo::computed(own, kind).collated(expr.derived)]
        };
        if range.ordinality {
            columns.push(ColumnInfo::computed("ordinality", ColumnType::new(TypeOid::INT8)));
        }
        let columns = self.renamed(columns, range.alias.as_ref(), &name)?;
        let scope = self.scope()?;
        let start = scope.add_columns(&name, &columns);
        if let Some(item) = scope.items.last_mut() {
            item.lone = is_lone && !range.ordinality;
        }
        let kind = match expr.kind {
            ExprKind::SetReturning(_) => {
                let set = self
                    .scope()?
                    .sets
                    .pop()
                    .ok_or_else(|| SqlError::internal("a set function got lost"))?;
                if self.scope()?.sets.len() != sets_before {
                    return Err(SqlError::unsupported("a set-returning function inside another"));
                }
                if !is_lone {
                    self.note_named_tables(&set.arguments);
                }
                ItemKind::Function {
                    function: set.function,
                    arguments: set.arguments,
                    ordinality: range.ordinality,
                }
            }
            _ if self.scope()?.sets.len() != sets_before => {
                return Err(SqlError::unsupported("a set-returning function inside an expression"));
            }
            _ => ItemKind::Single { expr, ordinality: range.ordinality },
        };
        let scope = self.scope()?;
        Ok(scope.add_source(kind, name, start, range.alias.as_ref(), None))
    }

    /// Analyzes `unnest(a, b)`: the arrays side by side, the shorter ones padded with NULL.
    /// Set-returning functions in the target list of a nested query do exactly that.
    fn unnest_several(
        &mut self,
        range: &protobuf::RangeFunction,
        call: &protobuf::FuncCall,
    ) -> Result<JoinTree> {
        let select = Tree::of_unnest(call, range.ordinality);
        let name =
            range.alias.as_ref().map_or("unnest", |alias| alias.aliasname.as_str()).to_owned();
        self.check_alias(&name)?;
        let query = self.nested_query(&select, None)?;
        let columns = self.renamed(query.columns.clone(), range.alias.as_ref(), &name)?;
        let scope = self.scope()?;
        let start = scope.add_columns(&name, &columns);
        let kind = ItemKind::Query(Box::new(query));
        let tree = scope.add_source(kind, name, start, range.alias.as_ref(), None);
        if let Some(source) = scope.sources.last_mut() {
            source.of_function = true;
        }
        Ok(tree)
    }

    /// Locks the tables that a function reads by name, like the tables of the query. So the
    /// statement is planned again if another transaction changes their definition.
    fn note_named_tables(&mut self, arguments: &[Expr]) {
        for argument in arguments.iter().filter(|argument| argument.ty == TypeOid::REGCLASS) {
            if let ExprKind::Const(Datum::Oid(number)) = &argument.kind
                && let Some(relation) = self.context.catalog.relation(Oid(*number)).cloned()
                && relation.kind.has_rows()
            {
                self.note_relation(&relation, TableLockMode::AccessShare);
            }
        }
    }

    fn join(&mut self, join: &protobuf::JoinExpr) -> Result<JoinTree> {
        let kind = match join.jointype() {
            JoinWord::JoinInner => Kept::Neither,
            JoinWord::JoinLeft => Kept::Left,
            JoinWord::JoinRight => Kept::Right,
            JoinWord::JoinFull => Kept::All,
            _ => return Err(SqlError::internal("a join of unknown kind")),
        };
        if join.alias.is_some() || join.join_using_alias.is_some() {
            return Err(SqlError::unsupported("an alias of a join"));
        }
        let (Some(left_node), Some(right_node)) = (&join.larg, &join.rarg) else {
            return Err(SqlError::internal("a join with one side"));
        };
        let (first, start) = (self.scope()?.items.len(), self.scope()?.width());
        // The recursive reference must not be on the nullable side of an outer join.
        const OUTER: &str = "an outer join";
        let left = match kind {
            Kept::Right | Kept::All => self.within(OUTER, |this| this.from_item(left_node))?,
            Kept::Neither | Kept::Left => self.from_item(left_node)?,
        };
        let middle = self.scope()?.items.len();
        if matches!(kind, Kept::Right | Kept::All) {
            let scope = self.scope()?;
            let left_slots = start..scope.width();
            scope.barred.push(left_slots);
        }
        let right = match kind {
            Kept::Left | Kept::All => self.within(OUTER, |this| this.from_item(right_node))?,
            Kept::Neither | Kept::Right => self.from_item(right_node)?,
        };
        if matches!(kind, Kept::Right | Kept::All) {
            self.scope()?.barred.pop();
        }
        let (left_filled, right_filled) = match kind {
            Kept::Neither => (false, false),
            Kept::Left => (false, true),
            Kept::Right => (true, false),
            Kept::All => (true, true),
        };
        for (number, item) in self.scope()?.items.iter_mut().enumerate().skip(first) {
            item.filled |= if number < middle { left_filled } else { right_filled };
        }
        let mut using = Vec::new();
        let condition = if join.is_natural {
            using = self.common_columns(first, middle)?;
            self.join_using(first, middle, &using, kind)?
        } else if !join.using_clause.is_empty() {
            using = names_of(&join.using_clause).iter().map(|n| (*n).to_owned()).collect();
            self.join_using(first, middle, &using, kind)?
        } else if let Some(quals) = &join.quals {
            // ON sees only the two sides, and the queries around this one.
            let scope = self.scope()?;
            let hidden: Vec<Item> = scope.items.drain(..first).collect();
            let place = scope.place;
            scope.place = Place::JoinCondition;
            let result = self.expr(quals).and_then(|e| self.to_bool(e, "JOIN/ON"));
            let scope = self.scope()?;
            scope.place = place;
            scope.items.splice(0..0, hidden);
            Some(result?)
        } else {
            None
        };
        let mut on = Vec::new();
        if let Some(condition) = condition {
            split_conjuncts(condition, &mut on);
        }
        let turned = kind == Kept::Right;
        let form = match using.as_slice() {
            [] => JoinForm::On { turned },
            _ => JoinForm::Using { columns: using, turned },
        };
        let (kind, left, right) = match kind {
            Kept::Neither => (JoinType::Inner, left, right),
            Kept::Left => (JoinType::Left, left, right),
            Kept::Right => (JoinType::Left, right, left),
            Kept::All => (JoinType::Full, left, right),
        };
        Ok(JoinTree::Join(Box::new(JoinNode { kind, left, right, on, form })))
    }

    /// Returns the column names that both sides of a NATURAL join have.
    fn common_columns(&mut self, first: usize, middle: usize) -> Result<Vec<String>> {
        let scope = self.scope()?;
        let names = |items: &[Item]| -> Vec<String> {
            items
                .iter()
                .flat_map(|item| &item.columns)
                .filter(|c| c.bare && !c.hidden)
                .map(|c| c.name.clone())
                .collect()
        };
        let right = names(&scope.items[middle..]);
        Ok(names(&scope.items[first..middle]).into_iter().filter(|n| right.contains(n)).collect())
    }

    /// Returns the conditions of a USING join. Its merged columns come first in `*`, and are found
    /// by their unqualified names.
    fn join_using(
        &mut self,
        first: usize,
        middle: usize,
        names: &[String],
        kind: Kept,
    ) -> Result<Option<Expr>> {
        let mut parts = Vec::new();
        let mut merged = Vec::new();
        for name in names {
            let end = self.scope()?.items.len();
            let left = self.using_column(first, middle, name, "left")?;
            let right = self.using_column(middle, end, name, "right")?;
            let mut chosen = if kind == Kept::Right { right.clone() } else { left.clone() };
            if kind == Kept::All {
                let sides = vec![left.expr.clone(), right.expr.clone()];
                let sides = self.unify(sides, "JOIN/USING")?;
                let ty = sides.first().map_or(chosen.expr.ty, |side| side.ty);
                chosen.expr = Expr::new(ExprKind::Coalesce(sides), ty, -1);
                chosen.origin = (0, 0);
            }
            for side in [&left, &right] {
                self.use_column(side.expr.clone(), 0, -1)?;
            }
            let equal = self.operator("=", Some(left.expr), right.expr, -1)?;
            self.check_collation(&equal)?;
            parts.push(equal);
            merged.push(ItemColumn { bare: true, ..chosen });
        }
        if !merged.is_empty() {
            // The item comes before the two sides, so that `*` lists the merged columns first.
            let item = Item {
                name: String::new(),
                schema: None,
                columns: merged,
                relation: None,
                start: 0,
                lone: false,
                view: None,
                filled: false,
            };
            self.scope()?.items.insert(first, item);
        }
        Ok(match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Expr::new(ExprKind::And(parts), TypeOid::BOOL, -1)),
        })
    }

    /// Returns a column of one side, and hides it from unqualified names and from `*`. In a view's
    /// text, the column may have another name than today. Then the item is shown with an alias, so
    /// that USING finds the name on both sides.
    fn using_column(
        &mut self,
        from: usize,
        to: usize,
        name: &str,
        side: &str,
    ) -> Result<ItemColumn> {
        let Scope { items, sources, .. } = self.scope()?;
        let mut found: Option<ItemColumn> = None;
        for item in &mut items[from..to] {
            let relation = item.relation.as_ref().or(item.view.as_ref());
            for (number, column) in item.columns.iter_mut().enumerate() {
                if column.bare && !column.hidden && column.name == name {
                    if found.is_some() {
                        return Err(SqlError::new(
                            "42702",
                            format!(
                                "common column name \"{name}\" appears more than once in {side} table"
                            ),
                        ));
                    }
                    found = Some(column.clone());
                    column.bare = false;
                    // Of those that begin in the same slot, all but the last have no columns.
                    let source = sources.iter_mut().rfind(|s| s.slots.start == item.start);
                    if let (Some(relation), Some(source)) = (relation, source) {
                        source.keep_name(number, name, relation);
                    }
                }
            }
        }
        found.ok_or_else(|| {
            SqlError::new(
                "42703",
                format!(
                    "column \"{name}\" specified in USING clause does not exist in {side} table"
                ),
            )
        })
    }

    /// Notes that a statement uses a table; with ONLY, without its partitions.
    fn used_relation(
        &mut self,
        var: &protobuf::RangeVar,
        relation: Arc<Relation>,
        lock: TableLockMode,
    ) -> Arc<Relation> {
        if var.inh || !relation.is_partitioned() {
            self.note_relation(&relation, lock);
            return relation;
        }
        self.note_alone(&relation, lock);
        Arc::new(relation.alone())
    }

    /// Returns the name of a change's target. The schema is included if it may qualify the name.
    pub(crate) fn target_names(
        &self,
        var: &protobuf::RangeVar,
        written: &WriteTarget,
    ) -> (String, Option<String>) {
        let named = written.named();
        match &var.alias {
            Some(alias) => (alias.aliasname.clone(), None),
            None => (named.name.clone(), Some(self.schema_name(named.schema))),
        }
    }

    /// Resolves the target of INSERT, UPDATE, DELETE or MERGE.
    pub(crate) fn target_relation(
        &mut self,
        var: &protobuf::RangeVar,
        kind: ModifyKind,
    ) -> Result<WriteTarget> {
        let relation = self.find_relation(var)?;
        match relation.kind {
            RelationKind::Table => {}
            RelationKind::View if relation.query.is_some() => {
                return self.written_view(&relation, kind);
            }
            RelationKind::View if relation.is_system() => {
                let what = format!("changing the system catalog (\"{}\")", relation.name);
                return Err(self.unsupported(what, -1));
            }
            kind => {
                return Err(self.error(
                    "42809",
                    format!("cannot change {} \"{}\"", kind.word(), relation.name),
                    -1,
                ));
            }
        }
        let relation = self.used_relation(var, relation, TableLockMode::RowExclusive);
        Ok(WriteTarget { table: relation, view: None })
    }
}
