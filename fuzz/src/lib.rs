//! Shared parts of all fuzz targets: their list, and a function that runs one.
#![forbid(unsafe_code)]

/// Name of a decoder, valid inputs to begin with, and the function that calls the decoder.
pub type Target = (&'static str, fn() -> Vec<Vec<u8>>, fn(&[u8]));

/// Runs one of a crate's targets.
pub fn run(targets: &[Target], name: &str, bytes: &[u8]) {
    let (_, _, run) = targets.iter().find(|target| target.0 == name).expect("the target exists");
    run(bytes);
}

/// Returns the targets of all crates.
pub fn all() -> impl Iterator<Item = &'static Target> {
    [
        niwaki_catalog::hostile::TARGETS,
        niwaki_heap::hostile::TARGETS,
        niwaki_nbtree::hostile::TARGETS,
        niwaki_server::hostile::TARGETS,
        niwaki_sql::hostile::TARGETS,
        niwaki_storage::hostile::TARGETS,
        niwaki_txn::hostile::TARGETS,
        niwaki_types::hostile::TARGETS,
    ]
    .into_iter()
    .flatten()
}
