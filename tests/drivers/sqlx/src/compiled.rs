//! checked.rs compiled against the server and run, then compiled with its mistakes.

use std::path::Path;
use std::process::{Command, Output};

/// Prints the data that sqlx kept of each query, in the order of their texts. Then prints the
/// program's output, and the compiler's errors about wrong queries.
pub(crate) fn run(url: &str) {
    let target = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let data = std::env::current_dir().unwrap().join("queries");
    std::fs::create_dir_all(&data).unwrap();
    let built = build(url, &target, &data, "checked");
    if !built.status.success() {
        return print!("not compiled: {}", String::from_utf8_lossy(&built.stderr));
    }
    let mut found: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap()).collect();
    found.sort_by_key(|query| query["query"].to_string());
    for query in found {
        println!("{}: {}", query["query"], query["describe"]);
    }
    let done = Command::new(target.join("debug").join("checked")).env("DATABASE_URL", url).output().unwrap();
    print!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("wrong:");
    let mut errors: Vec<_> = String::from_utf8_lossy(&build(url, &target, &data, "checked,wrong").stderr).lines().filter(|line| line.starts_with("error")).map(str::to_owned).collect();
    errors.sort();
    errors.iter().for_each(|line| println!("{line}"));
}

fn build(url: &str, target: &Path, data: &Path, features: &str) -> Output {
    Command::new("cargo")
        .args(["build", "--quiet", "--locked", "--bin", "checked", "--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .env("DATABASE_URL", url)
        .env("SQLX_OFFLINE_DIR", data)
        .output()
        .unwrap()
}
