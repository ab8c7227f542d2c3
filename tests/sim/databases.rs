//! Databases that come and go beside sessions, in schedules that a seed determines.

use niwaki_testkit::databases;
use niwaki_testkit::schedules::{schedules, simulate};

#[test]
fn databases_come_and_go() {
    simulate(schedules(300), databases::come_and_go);
}

#[test]
fn a_database_is_copied_and_dropped() {
    simulate(schedules(300), databases::copied_and_dropped);
}
