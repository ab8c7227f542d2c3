//! Sessions that draw numbers from a sequence, in schedules that a seed determines.
//!
//! Beside them a session drops, restarts and alters the sequence.

use niwaki_testkit::schedules::{schedules, simulate};
use niwaki_testkit::sequences;

#[test]
fn a_sequence_stays_for_who_has_drawn_from_it() {
    simulate(schedules(500), sequences::run);
}
