//! Writes the valid inputs of every target into its corpus, where a run begins.
//!
//! Run with `cargo run --bin seeds`.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, seeds, _) in niwaki_fuzz::all() {
        let folder = corpus.join(name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("example-{number}")), seed)?;
        }
        println!("{name}");
    }
    Ok(())
}
