//! Writes FROM clauses as text.

use std::sync::Arc;

use niwaki_catalog::Column;
use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind, object_name};
use niwaki_expr::query::{
    From, FromItem, ItemKind, JoinForm, JoinNode, JoinTree, JoinType, SetFunction,
};
use niwaki_types::{ColumnType, TypeOid, quote_identifier};

use super::Level;
use super::expression::Parent;
use super::level::columns_of;
use super::lines::{ITEM, JOIN, Lines};
use super::query::{Style, conjunction, write_query};

/// Writes FROM with all of its items.
pub(super) fn write_from(out: &mut Lines, from: &From, level: &Level<'_>, style: &Style<'_, '_>) {
    let Some(tree) = &from.tree else { return };
    let mut listed = Vec::new();
    list(tree, &mut listed);
    for (number, tree) in listed.into_iter().enumerate() {
        if number == 0 {
            out.clause(" FROM ", 2);
        } else {
            out.push(",");
            out.clause("", ITEM);
        }
        write_tree(out, tree, from, level, style);
    }
}

/// Collects the trees between the commas.
fn list<'t>(tree: &'t JoinTree, into: &mut Vec<&'t JoinTree>) {
    match tree {
        JoinTree::Join(join) if join.form == JoinForm::Listed => {
            list(&join.left, into);
            list(&join.right, into);
        }
        tree => into.push(tree),
    }
}

fn write_tree(
    out: &mut Lines,
    tree: &JoinTree,
    from: &From,
    level: &Level<'_>,
    style: &Style<'_, '_>,
) {
    match tree {
        JoinTree::Item(number) => write_item(out, &from.items[*number], level, style),
        JoinTree::Join(join) => {
            stack::room(0, || write_join(out, join, from, level, style));
        }
    }
}

fn write_join(
    out: &mut Lines,
    join: &JoinNode,
    from: &From,
    level: &Level<'_>,
    style: &Style<'_, '_>,
) {
    let (turned, using) = match &join.form {
        JoinForm::Listed => (false, None),
        JoinForm::On { turned } => (*turned, None),
        JoinForm::Using { columns, turned } => (*turned, Some(columns)),
    };
    let (left, right) = if turned { (&join.right, &join.left) } else { (&join.left, &join.right) };
    let word = match join.kind {
        _ if turned => " RIGHT JOIN ",
        JoinType::Left => " LEFT JOIN ",
        JoinType::Full => " FULL JOIN ",
        _ if join.on.is_empty() && using.is_none() => " CROSS JOIN ",
        _ => " JOIN ",
    };
    if !style.pretty {
        out.push("(");
    }
    write_tree(out, left, from, level, style);
    out.clause(word, JOIN);
    let bracketed = style.pretty && matches!(right, JoinTree::Join(_));
    if bracketed {
        out.push("(");
    }
    write_tree(out, right, from, level, style);
    if bracketed {
        out.push(")");
    }
    if let Some(columns) = using {
        let names: Vec<String> = columns.iter().map(|name| quote_identifier(name)).collect();
        out.push(&format!(" USING ({})", names.join(", ")));
    } else if let Some(on) = conjunction(&join.on) {
        let on = style.writer(level, out.indent).show(&on, Parent::None);
        out.push(&if style.pretty { format!(" ON {on}") } else { format!(" ON ({on})") });
    } else if join.kind != JoinType::Inner {
        // NATURAL without common columns has no condition, and a condition that is always true has
        // no text.
        out.push(" ON TRUE");
    }
    if !style.pretty {
        out.push(")");
    }
}

fn write_item(out: &mut Lines, item: &FromItem, level: &Level<'_>, style: &Style<'_, '_>) {
    let writer = style.writer(level, out.indent);
    // True if the item's name is the one that it has without an alias.
    let mut own_name = false;
    match (&item.kind, &item.view) {
        (_, Some(relation)) | (ItemKind::Table(relation) | ItemKind::View(relation), None) => {
            if item.only {
                out.push("ONLY ");
            }
            out.push(&object_name(relation.oid.0, TypeOid::REGCLASS, style.exec));
            own_name = !item.aliased;
        }
        (ItemKind::Query(query), None) => {
            if !query.reads().is_empty() {
                out.push("LATERAL ");
            }
            out.push("(");
            let mut inner = Lines { text: String::new(), indent: out.indent };
            write_query(&mut inner, query, None, Some(level), style);
            out.push(&inner.text);
            out.push(")");
        }
        (ItemKind::Shared { number } | ItemKind::Working { number }, None) => {
            let name = level.shared.get(*number).map_or("?", |with| with.name.as_str());
            out.push(&quote_identifier(name));
            own_name = !item.aliased;
        }
        (ItemKind::Function { function, arguments, ordinality }, None) => {
            let mut lateral = false;
            for argument in arguments {
                niwaki_expr::query::reads_slots(argument, &mut |_| lateral = true);
            }
            if lateral {
                out.push("LATERAL ");
            }
            out.push(&writer.set_call(function, arguments));
            if *ordinality {
                out.push(" WITH ORDINALITY");
            }
        }
        (ItemKind::Single { expr, ordinality }, None) => {
            let mut lateral = false;
            niwaki_expr::query::reads_slots(expr, &mut |_| lateral = true);
            if lateral {
                out.push("LATERAL ");
            }
            let text = writer.show(expr, Parent::None);
            if is_call(expr) {
                out.push(&text);
            } else {
                let kind = writer.type_name(expr.column_type());
                out.push(&format!("CAST({text} AS {kind})"));
            }
            if *ordinality {
                out.push(" WITH ORDINALITY");
            }
        }
    }
    let columns = column_aliases(item, level);
    if (own_name && columns.is_empty()) || item.name.is_empty() {
        return;
    }
    out.push(&format!(" {}", quote_identifier(item.shown_name())));
    if let ItemKind::Function { function: SetFunction::Records(records), .. } = &item.kind
        && records.listed
    {
        let column = |(name, kind): &(Arc<str>, ColumnType)| {
            format!("{} {}", quote_identifier(name), writer.type_name(*kind))
        };
        let columns: Vec<String> = records.fields.iter().map(column).collect();
        out.push(&format!("({})", columns.join(", ")));
    } else if !columns.is_empty() {
        let columns: Vec<String> = columns.iter().map(|name| quote_identifier(name)).collect();
        out.push(&format!("({})", columns.join(", ")));
    }
}

/// Returns the column names behind the name of an item: of all columns, or none.
fn column_aliases(item: &FromItem, level: &Level<'_>) -> Vec<String> {
    let columns = columns_of(item, level.shared).into_iter().map(|(name, _)| name);
    match (&item.kind, &item.view) {
        (_, Some(relation)) | (ItemKind::Table(relation) | ItemKind::View(relation), None) => {
            // The system columns follow the relation's own columns.
            let own = columns.zip(&relation.columns).filter(|(_, own)| !own.dropped);
            let own: Vec<(String, &Column)> = own.collect();
            if own.iter().all(|(name, own)| *name == own.name) {
                Vec::new()
            } else {
                own.into_iter().map(|(name, _)| name).collect()
            }
        }
        (ItemKind::Function { .. } | ItemKind::Single { .. }, None) => columns.collect(),
        _ if item.aliases.is_empty() => Vec::new(),
        _ => columns.collect(),
    }
}

/// Returns true if an expression is written like the call of a function.
fn is_call(expr: &Expr) -> bool {
    let is_cast = expr.made_type().is_some_and(|made| made != expr.ty);
    expr.collation.is_none()
        && !is_cast
        && match &expr.kind {
            ExprKind::Call { function, .. } => {
                function.name.starts_with(|c: char| c.is_ascii_alphabetic())
            }
            ExprKind::UserCall { .. }
            | ExprKind::Populated { .. }
            | ExprKind::Coalesce(_)
            | ExprKind::MinMax { .. }
            | ExprKind::NullIf { .. } => true,
            _ => false,
        }
}
