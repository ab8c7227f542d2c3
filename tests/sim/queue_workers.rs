//! Workers that lock a row and count it in one statement, in schedules that a seed determines.

use niwaki_testkit::queue_workers;
use niwaki_testkit::schedules::{schedules, simulate};

#[test]
fn no_count_of_a_claimed_row_is_lost() {
    simulate(schedules(1_000), queue_workers::run);
}
