//! The `niwaki` command.

fn main() {}
