//! Faults below the server: in system calls, files, the process itself.
//!
//! One client works through transactions that are drawn from a seed, and remembers each
//! acknowledged one ([`workload`]). Meanwhile a system call fails, the disk is full, or the process
//! dies at its n-th call ([`calls`]). Or files of the directory are changed, cut or removed while
//! no server runs, or below a running one ([`damage`]).
//!
//! Whatever happens, two things hold: everything acknowledged is there, and no statement gives a
//! wrong answer. A statement, a start and `niwaki check` may give an error that names the fault.
//!
//! `NIWAKI_FAULTS_SEED` (1 unless given) draws all cases. `NIWAKI_FAULTS_CASES` gives the number of
//! cases of each kind, and `NIWAKI_FAULTS_ONLY` runs one by its number. All are printed.

mod calls;
mod damage;
mod workload;

use std::ops::Range;

use support::Random;

/// Returns the case numbers of one kind, `usual` of them unless the environment says otherwise.
fn cases(kind: &str, usual: u64) -> Range<u64> {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let count = number("NIWAKI_FAULTS_CASES").unwrap_or(usual);
    println!("{kind}: {count} cases of NIWAKI_FAULTS_SEED={}", seed());
    match number("NIWAKI_FAULTS_ONLY") {
        Some(only) => only..only + 1,
        None => 0..count,
    }
}

fn seed() -> u64 {
    std::env::var("NIWAKI_FAULTS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Runs every case, and names all that failed.
///
/// # Panics
/// When a case failed.
fn each(kind: &str, usual: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let failed: Vec<u64> = cases(kind, usual)
        .filter(|&case| std::panic::catch_unwind(|| run(case)).is_err())
        .collect();
    assert!(
        failed.is_empty(),
        "{kind}: cases that failed, each with its own words above: {failed:?}"
    );
}

/// Returns the generator of one case.
fn random(case: u64) -> Random {
    let mut random = Random::new(seed().wrapping_mul(1_000_003).wrapping_add(case));
    // Neighbouring seeds begin alike; a few numbers later they differ.
    for _ in 0..8 {
        random.below(2);
    }
    random
}
