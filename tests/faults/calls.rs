//! System calls that fail, and a process that dies at one of them.
//!
//! `strace` makes the n-th call of each thread fail, or kills the server there. The server may give
//! errors, and may end. Then it is killed for sure, started again without faults, and asked.

use std::path::Path;
use std::process::Command;

use support::{Random, Server, TempDir, check};

use crate::workload::{self, Known, SETTINGS};
use crate::{each, random};

/// Transactions of one case, at most.
const TRANSACTIONS: i32 = 60;

/// Calls that change files.
const WRITES: &str = "pwrite64,pwritev,pwritev2,fallocate,ftruncate";
const SYNCS: &str = "fsync,fdatasync,sync_file_range";
const NAMES: &str = "openat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat";
const READS: &str = "pread64,preadv,preadv2";

/// Returns one fault as `strace -e inject=` wants it.
fn fault(random: &mut Random) -> String {
    let digits = 1 + random.below(9);
    let nth = 1 + random.below(1 << digits);
    // The fault comes once, or from then on.
    let when = format!("when={nth}{}", if random.below(2) == 0 { "" } else { "+" });
    match random.below(8) {
        0..=3 => format!("{WRITES},{SYNCS},{NAMES}:signal=KILL:when={nth}"),
        4 => format!("{WRITES}:error=ENOSPC:{when}"),
        5 => format!("{WRITES}:error=EIO:{when}"),
        6 => format!("{SYNCS}:error=EIO:{when}"),
        _ => match random.below(3) {
            0 => format!("openat:error=EMFILE:{when}"),
            1 => format!("{NAMES}:error=EIO:{when}"),
            _ => format!("{READS}:error=EIO:{when}"),
        },
    }
}

/// Starts under the fault. `None` when the server ended instead of accepting, as it may.
fn start(data: &Path, trace: &Path, fault: &str) -> Option<Server> {
    let inject = format!("inject={fault}");
    let (calls, _) = fault.split_once(':').expect("calls and what becomes of them");
    let traced = format!("trace={calls}");
    let trace = trace.display().to_string();
    let wrapper =
        ["strace", "-D", "-f", "-q", "-o", &trace, "--seccomp-bpf", "-e", &traced, "-e", &inject];
    match Server::try_start_under(&wrapper, data, &SETTINGS) {
        Ok(server) => Some(server),
        Err(said) => {
            assert!(!said.contains("panicked"), "it panicked at its start: {said}");
            None
        }
    }
}

fn need_strace() {
    let works = Command::new("strace").args(["-f", "--seccomp-bpf", "true"]).output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "strace is needed, with the right to trace: apt-get install strace"
    );
}

#[test]
fn nothing_acknowledged_is_lost_whatever_call_fails() {
    need_strace();
    each("calls", 60, |case| {
        let mut random = random(case);
        let dir = TempDir::new("faults-calls");
        let (data, trace) = (dir.path().join("data"), dir.path().join("trace"));
        let mut known = Known::default();
        let mut server = Server::start(&data, &SETTINGS);
        let mut client = server.client();
        workload::prepare(&mut client);
        workload::work(&mut client, 20, &mut known, &mut random);
        if random.below(2) == 0 {
            assert!(server.stop());
        } else {
            server.kill();
        }
        // A second fault may hit the recovery from the first.
        for _ in 0..=random.below(3) {
            let fault = fault(&mut random);
            println!("case {case}: {known:?}, {fault}");
            let Some(mut server) = start(&data, &trace, &fault) else { continue };
            if let Ok(mut client) = server.try_client() {
                workload::work(&mut client, TRANSACTIONS, &mut known, &mut random);
            }
            server.kill();
            let said = server.stderr();
            assert!(!said.contains("internal error"), "case {case}, {fault}: {said}");
        }
        let mut server = Server::start(&data, &SETTINGS);
        let mut client = server.client();
        workload::verify(&mut client, known);
        // The server goes on as if there had been no fault.
        workload::learn(&mut client, &mut known).expect("no fault is left");
        workload::work(&mut client, 10, &mut known, &mut random);
        workload::verify(&mut client, known);
        drop(client);
        assert!(server.stop());
        check(&data);
    });
}
