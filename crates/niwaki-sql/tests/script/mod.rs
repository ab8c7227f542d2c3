//! Runs statement scripts. A script holds blocks: a statement, `----`, and the answer. Rows are one
//! line each, values separated by `|`. Errors are `error SQLSTATE: message` with lines for their
//! other fields.
//!
//! The `niwaki` crate runs its scripts by this module, too.

/// Compares the answer to each statement of a script with the recorded one.
pub(crate) fn check(name: &str, script: &str, mut answer: impl FnMut(&str) -> String) {
    let mut failures = Vec::new();
    let mut checked = 0;
    for block in script.split("\n\n") {
        let Some((statement, expected)) = block.split_once("\n----") else { continue };
        checked += 1;
        let found = answer(statement.trim());
        if found.trim_end() != expected.trim() {
            failures
                .push(format!("{statement}\n expected: {}\n found:    {found}", expected.trim()));
        }
    }
    assert!(checked > 10, "script {name} has too few statements");
    assert!(
        failures.is_empty(),
        "{} of {checked} differ:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}
