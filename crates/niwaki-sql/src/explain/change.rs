//! Shows the steps that change data as PostgreSQL does.

use niwaki_analyze::deparse::plain::{Names, expression};
use niwaki_expr::plan::{MergePlan, ModifyPlan};
use niwaki_expr::query::{ConflictPlan, ModifyKind};

use super::{Describing, Shown, describe, named};

/// Describes INSERT, UPDATE and DELETE.
pub(super) fn describe_modify(modify: &ModifyPlan, with: &Describing<'_, '_>) -> Shown {
    let child = describe(&modify.input, with);
    let word = match modify.kind {
        ModifyKind::Insert => "Insert",
        ModifyKind::Update => "Update",
        ModifyKind::Delete => "Delete",
    };
    let mut shown = change(word, (&modify.relation.name, &modify.name), child);
    if let Some(conflict) = &modify.conflict {
        add_conflict(&mut shown, modify, conflict, with);
    }
    shown
}

/// Describes MERGE, with its counts of changed source rows once they are known.
pub(super) fn describe_merge(merge: &MergePlan, with: &Describing<'_, '_>) -> Shown {
    let child = describe(&merge.input, with);
    let mut shown = change("Merge", (&merge.relation.name, &merge.name), child);
    let Some(counts) = with.measures.map(|measures| measures.merged) else { return shown };
    let counts = [
        ("inserted", "Tuples Inserted", counts.inserted),
        ("updated", "Tuples Updated", counts.updated),
        ("deleted", "Tuples Deleted", counts.deleted),
        ("skipped", "Tuples Skipped", counts.skipped),
    ];
    let met = counts.iter().filter(|(.., count)| *count > 0);
    let met: Vec<String> = met.map(|(word, _, count)| format!("{word}={count}")).collect();
    if !met.is_empty() {
        shown.lines.push(format!("Tuples: {}", met.join(" ")));
    }
    for (_, label, count) in counts {
        shown.number(label, count.to_string());
    }
    shown
}

/// Returns a step that changes the rows of `table`, whose name in the query is `alias`.
fn change(word: &str, (table, alias): (&str, &str), child: Shown) -> Shown {
    let mut shown = Shown::new("ModifyTable", child.rows, child.cost, vec![child]);
    shown.title = format!("{word} on {}", named(table, alias));
    shown.relation = Some(table.to_owned());
    shown.alias = Some(alias.to_owned());
    shown
}

/// Adds ON CONFLICT as PostgreSQL shows it.
fn add_conflict(
    shown: &mut Shown,
    modify: &ModifyPlan,
    conflict: &ConflictPlan,
    with: &Describing<'_, '_>,
) {
    let action = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
    shown.detail("Conflict Resolution", action.to_owned());
    if conflict.inferred {
        let indexes = &modify.relation.indexes;
        let names = conflict.arbiters.iter().map(|index| indexes[*index].name.clone());
        shown.list("Conflict Arbiter Indexes", names.collect());
    }
    let counts = with.measures.map(|measures| measures.conflicts);
    if let Some(update) = &conflict.update
        && let Some(condition) = &update.condition
    {
        let names = Names::of_conflict(modify, update);
        shown.detail("Conflict Filter", expression(condition, &names, with.exec));
        let label = "Rows Removed by Conflict Filter";
        match counts.map(|counts| counts.filtered) {
            None => {}
            // Text format leaves out a count of 0.
            Some(0) => shown.number(label, "0".to_owned()),
            Some(filtered) => shown.count(label, filtered),
        }
    }
    if let Some(counts) = counts {
        shown.count("Tuples Inserted", counts.inserted);
        shown.count("Conflicting Tuples", counts.conflicting);
    }
}
