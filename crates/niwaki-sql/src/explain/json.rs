//! Writes EXPLAIN (FORMAT JSON), with PostgreSQL's keys in PostgreSQL's order.

use super::{Averages, ExplainOptions, Shown, aggregate, milliseconds};

pub(super) fn json_string(text: &str) -> String {
    let mut result = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            c if c < ' ' => result.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => result.push(c),
        }
    }
    result.push('"');
    result
}

/// Writes an array of texts.
pub(super) fn list(parts: &[String]) -> String {
    let quoted: Vec<String> = parts.iter().map(|part| json_string(part)).collect();
    format!("[{}]", quoted.join(", "))
}

/// Returns the "Parent Relationship" of a step: its relation to `above`, whose child number
/// `number` it is.
fn relationship(above: &Shown, shown: &Shown, number: usize) -> &'static str {
    match shown.label.as_deref() {
        Some(label) if label.starts_with("SubPlan") => return "SubPlan",
        Some(_) => return "InitPlan",
        None => {}
    }
    match above.node_type {
        "Append" | "Merge Append" | "BitmapAnd" | "BitmapOr" => "Member",
        "Subquery Scan" => "Subquery",
        _ if number == 1 => "Inner",
        _ => "Outer",
    }
}

/// Writes a step and the steps below. `relationship` is the step's relation to the one above.
pub(super) fn write(
    shown: &Shown,
    relationship: Option<&'static str>,
    indent: usize,
    options: &ExplainOptions,
    out: &mut String,
) {
    let pad = " ".repeat(indent + 2);
    let strategy = aggregate::strategy(shown.node_type);
    let node_type = strategy.map_or(shown.node_type, |_| "Aggregate");
    let mut fields = vec![format!("\"Node Type\": {}", json_string(node_type))];
    if let Some(strategy) = strategy {
        fields.push(format!("\"Strategy\": \"{strategy}\""));
        fields.push(format!("\"Partial Mode\": \"{}\"", shown.partial_mode));
    }
    if let Some(relationship) = relationship {
        fields.push(format!("\"Parent Relationship\": {}", json_string(relationship)));
    }
    if let Some(label) = &shown.label {
        fields.push(format!("\"Subplan Name\": {}", json_string(label)));
    }
    fields.push(format!("\"Parallel Aware\": {}", shown.parallel));
    // No step waits for several others at once.
    fields.push("\"Async Capable\": false".to_owned());
    if let Some(kind) = shown.join {
        fields.push(format!("\"Join Type\": \"{kind:?}\""));
    }
    let names =
        [("Index Name", &shown.index), ("Relation Name", &shown.relation), ("Alias", &shown.alias)];
    for (label, name) in names {
        fields.extend(name.as_ref().map(|name| format!("\"{label}\": {}", json_string(name))));
    }
    if options.costs {
        // The planner estimates neither the cost of a first row nor the width of rows. Text shows
        // both as 0, too.
        fields.push("\"Startup Cost\": 0.00".to_owned());
        fields.push(format!("\"Total Cost\": {:.2}", shown.cost));
        fields.push(format!("\"Plan Rows\": {:.0}", shown.rows.max(1.0)));
        fields.push("\"Plan Width\": 0".to_owned());
    }
    if let Some(measure) = shown.measure {
        let zero = || milliseconds(0);
        let Averages { first, total, rows, loops } = Averages::of(measure)
            .unwrap_or_else(|| Averages { first: zero(), total: zero(), rows: 0, loops: 0 });
        if options.timing {
            fields.push(format!("\"Actual Startup Time\": {first}"));
            fields.push(format!("\"Actual Total Time\": {total}"));
        }
        fields.push(format!("\"Actual Rows\": {rows}"));
        fields.push(format!("\"Actual Loops\": {loops}"));
    }
    if !shown.output.is_empty() {
        fields.push(format!("\"Output\": {}", list(&shown.output)));
    }
    for (label, detail) in
        shown.details.iter().filter(|(label, _)| aggregate::in_json(shown, label))
    {
        fields.push(format!("{}: {}", json_string(label), detail.json()));
    }
    for (label, value) in &shown.numbers {
        fields.push(format!("{}: {value}", json_string(label)));
    }
    out.push_str("{\n");
    out.push_str(&fields.iter().map(|f| format!("{pad}{f}")).collect::<Vec<_>>().join(",\n"));
    if !shown.children.is_empty() {
        out.push_str(&format!(",\n{pad}\"Plans\": [\n"));
        for (number, child) in shown.children.iter().enumerate() {
            if number > 0 {
                out.push_str(",\n");
            }
            out.push_str(&" ".repeat(indent + 4));
            // With statements in WITH, the rows come from a later child.
            let labelled = shown.children.iter().take(number).filter(|c| c.label.is_some()).count();
            let relationship = self::relationship(shown, child, number - labelled);
            write(child, Some(relationship), indent + 4, options, out);
        }
        out.push_str(&format!("\n{pad}]"));
    }
    out.push_str(&format!("\n{}}}", " ".repeat(indent)));
}
