//! The scenarios: a mixture of everything, and for each rule a short story that breaks without it.

use crate::plan::{
    ActorPlan, End, Plan, Statement, TransactionPlan, a, aborted, all, away, b, delete, index_only,
    insert, lock, lock_exclusively, random_sessions, repeatable, scan, set_a, set_b, third_index,
    third_on_b, tx,
};
use crate::random::Random;
use crate::rules::Rule;
use crate::state::index::{Column, Definition, Unique};

/// A family of runs: a seed picks one of its plans, and a schedule.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The name on the command line and in the README.
    pub name: &'static str,
    /// The subject of the scenario, in a sentence.
    pub about: &'static str,
    pub(crate) plan: fn(&mut Random) -> Plan,
    pub(crate) early_release: bool,
}

impl Scenario {
    /// Lets the plans release early, also those that are of today's protocol.
    #[must_use]
    pub fn with_early_release(self) -> Self {
        Self { early_release: true, ..self }
    }
}

/// The mixture of all kinds of actors.
pub const MIXTURE: Scenario = Scenario {
    name: "mixture",
    about: "three or four sessions of random statements, beside cleaners, readers and builds",
    plan: mixture,
    early_release: false,
};

fn mixture(random: &mut Random) -> Plan {
    let mut plan = Plan::new();
    if random.one_in(2) {
        plan = plan.including_serial();
    }
    if random.one_in(6) {
        plan.indexes[0].unique = Unique::AtCommit;
    }
    let (third, built) = (random.one_in(3), random.one_in(2));
    if third {
        let mut definition = third_index(random);
        // The initial rows have the same half of b.
        if !built && !definition.expression && random.one_in(2) {
            definition.unique = Unique::AtOnce;
        }
        plan = plan.third(definition, !built);
        if random.one_in(2) {
            plan = plan.second_on_a();
        }
    }
    if random.one_in(4) {
        plan.leaf_capacity = 2 + random.below(2);
    }
    let crashes = if random.one_in(4) { 1 + random.below(2) } else { 0 };
    plan.after_crashes = vec![Vec::new(); crashes];
    plan.actors = actors(random, &plan, third && built);
    plan.after_crashes = (0..crashes).map(|_| actors(random, &plan, false)).collect();
    if random.one_in(2) {
        // A build takes its log for flushed.
        if crashes > 0 && !(third && built) && random.one_in(2) {
            plan.actors.push(ActorPlan::FailingDevice);
        }
        plan = plan.early_at_random(random);
    }
    plan
}

fn actors(random: &mut Random, plan: &Plan, builds: bool) -> Vec<ActorPlan> {
    let sessions = 3 + random.below(2);
    let mut actors = random_sessions(random, plan, sessions);
    actors.push(if random.one_in(2) {
        ActorPlan::Gardener { rounds: 8 }
    } else {
        ActorPlan::Tender { rounds: 12 }
    });
    if random.one_in(2) {
        actors.push(ActorPlan::Deleter { rounds: 3 });
    }
    if random.one_in(2) {
        actors.push(ActorPlan::Vacuum { passes: 2 });
    }
    if random.one_in(2) {
        actors.push(PRUNER);
    }
    if random.one_in(4) {
        actors.push(ActorPlan::Tender { rounds: 8 });
    }
    if random.one_in(2) {
        actors.push(ActorPlan::OldReader { held: random.one_in(2) });
    }
    if builds {
        actors.push(ActorPlan::Build);
    }
    if !plan.after_crashes.is_empty() {
        actors.push(ActorPlan::Writer { rounds: 60 });
    }
    actors
}

/// A rule, its scenario, and the number of schedules within which the scenario must break without
/// the rule.
pub struct Story {
    /// The rule.
    pub rule: Rule,
    /// The scenario, named like the rule. Its `about` describes the fault.
    pub scenario: Scenario,
    /// The most schedules until the first failure; several times the number needed.
    pub schedules: u64,
}

macro_rules! stories {
    ($($rule:ident $schedules:literal $plan:path, $about:literal;)*) => {
        /// A story for each rule, in the order of the rules.
        pub const STORIES: &[Story] = &[$(Story {
            rule: Rule::$rule,
            scenario: Scenario {
                name: Rule::$rule.name(),
                about: $about,
                plan: $plan,
                early_release: false,
            },
            schedules: $schedules,
        },)*];
    };
}

stories! {
    NoDuplicates 1000 there_and_back,
        "a key changes and changes back, and the row has two entries";
    Revive 1000 there_and_back,
        "a key comes back, its entry was marked dead meanwhile, and no scan finds the row";
    Recheck 1000 there_and_back,
        "an old entry leads to the new version, and a scan returns the row for a key that it does not have";
    KillUnchanged 1000 there_and_back,
        "a scan judges an entry dead, the key comes back, the scan marks the entry, and no scan finds the row";
    ReuseAfterEntries 1000 delete_and_insert,
        "an old entry leads to another row, which uses the line pointer now";
    MapUnderLatch 2000 deleted_and_all_visible,
        "a scan reads an entry, the row is removed, the page becomes all-visible, and the scan returns the row";
    MapHorizon 1000 changed_beside_an_old_reader,
        "an index-only scan shows an old reader a change that was committed after its snapshot";
    MapUnmixed 1000 changed_and_cleaned,
        "an index-only scan believes an old entry, and shows the row twice";
    Published 1000 two_writers,
        "a session acts on a commit that its next snapshot does not see, and the row is there twice";
    UnmixCounter 2000 changed_and_cleaned,
        "a scan reads an old entry, the entry is deleted, the root is cleared, and the scan trusts the entry";
    EndPublished 4000 changed_and_pruned,
        "a version is removed before its end is published, and the next snapshot loses the row";
    PublishedFirst 4000 changed_and_pruned,
        "a session takes a snapshot between the two reads of the collector, and loses the version that it sees";
    Pending 1000 statements_beside_changes,
        "the slot shows the old snapshot while the session takes a new one, and the new snapshot loses rows";
    SnapshotShared 2000 shared_snapshot,
        "a snapshot moves from a slot that the collector has yet to read to one that it has read, and is missed";
    OneLatch 4000 follower_beside_pruning,
        "the next version is pruned between two looks at the page, and the update is lost";
    Restart 12000 follower_that_waits,
        "the version at which the follower waited is pruned, and another row has the line pointer";
    Stub 1000 moved_and_changed,
        "a redirect leads past the version whose xmin the follower expects, and the update is lost";
    StubsForFollowers 1000 moved_beside_a_report,
        "each move leaves a stub, which stays as long as the report runs";
    HopCheck 8000 moved_and_deleted,
        "another row has the line pointer of the next version, and the wrong row is changed";
    RelinkXmax 1000 changed_beside_an_old_reader,
        "link and xmax do not belong together, and the rest of the chain is lost";
    CompleteRecord 4000 changed_and_cleaned,
        "the record loses a key, so the entry of this key stays, and a scan trusts it";
    SeenAfter 4000 changed_and_settled,
        "the root is cleared while an old entry is still there, and a scan trusts the entry";
    UnknownStays 8000 expression_changed_and_settled,
        "a version of unknown key comes during the descent to the leaf, and a scan trusts the old entry";
    OwnRecord 8000 dead_and_dead_again,
        "clean-up for the former row counts for the new row, and the line pointer is freed under an entry";
    LastOfChain 20000 aborted_before_a_build,
        "the clean-up of a new index uses a key that the row never had there, so its real entry leads to nothing";
    ChangesWait 8000 dropped_and_rolled_back,
        "clean-up passes over a dropped index, the drop is rolled back, and a line pointer is freed under an entry";
    OutsideChain 1000 aborted_and_cleaned,
        "the entry of an aborted version that is not pruned yet stays, and a scan trusts it";
    Cleaning 1000 changed_while_cleaned,
        "an update comes and aborts while the cleaner is at work, its entry stays, and a scan trusts it";
    MixedFirst 1000 there_and_back,
        "the entry is there before the mark, and a scan returns the row for a key that it does not have";
    PredicateMixes 1000 predicate_turns,
        "the entry leads to a version that no longer belongs to the index";
    PayloadMixes 1000 payload_changes,
        "an index-only scan shows the payload of an older version";
    AbortKeepsMixed 1000 aborted_and_cleaned,
        "a scan trusts the entry of the aborted update";
    ClearByVisit 1000 there_and_back,
        "a scan trusts the entry of the old key";
    OneCleaner 1000 several_cleaners,
        "a line pointer is freed, used, and dead again; a cleaner with an older list frees it under an entry";
    OneHold 2000 changed_and_cleaned_back,
        "a cleaner judges an entry, the key comes back, the cleaner deletes the entry, and no scan finds the row";
    ArrivalsCounted 2000 changed_and_tended_back,
        "a pass leaves a key behind, the key comes back, its entry is deleted, and no scan finds the row";
    UniqueAllVersions 1000 key_of_a_rollback,
        "the newest version has another key and is rolled back, and two rows have one key";
    UniqueBeforeDuplicate 1000 key_taken_meanwhile,
        "the old entry is there, so the insertion checks nothing, and two rows have one key";
    UniqueOwnRoot 1000 there_and_back,
        "a row's own old version keeps the row from getting the key";
    BuildExcludesCleaners 1000 build_beside_cleaners,
        "the build reads a row, another row gets the line pointer, and the build loads a wrong entry";
    BuildSetsMixed 1000 build_beside_changes,
        "the build gives a root two keys, and scans trust both";
    BuildEndsRecords 8000 build_beside_settling,
        "the build reads a row, the row dies and is cleaned up elsewhere, and the line pointer is freed under the built entry";
    CompareUnready 1000 build_beside_changes,
        "a key changes that only the new index has, and the root gets no mark";
    ValidateAll 1000 build_beside_changes,
        "an old reader uses the new index, and misses the version that no other snapshot sees";
    SuppressionBumps 1000 there_and_back,
        "a scan judges an entry dead, a duplicate is suppressed, the scan marks the entry, and no scan finds the row";
    LeafVersionGlobal 2000 there_and_back_evicted,
        "the leaf changes, comes back with the version that it had, and a scan marks a living entry";
    ReviveLogged 6000 revived_and_crashed,
        "the mark is on disk and is taken back only in memory, and after a crash no scan finds the row";
    KillFlushed 1000 deleted_and_crashed,
        "the mark is on disk, the deletion is not, and after a crash no scan finds the row";
    PayloadRewritten 1000 payload_changed_and_cleaned,
        "the entry has the payload of an older version, and a scan trusts it";
    LocksCarried 1000 locked_and_moved,
        "a locked row moves, and another session deletes it in spite of the lock";
    LockedRootStays 10000 locked_and_reused,
        "a lock counts for another row, which uses the line pointer now";
    OuterLockMoves 1000 locked_outside,
        "after a rollback to a savepoint, another session changes the row that is still locked";
    CopiesChecked 1000 expression_there_and_back,
        "a cleaner judges copies, the key comes back, the cleaner deletes the entry, and no scan finds the row";
    MoveRight 1000 inserts_that_split,
        "the leaf is split after the descent, and the entry goes to a leaf on which no scan looks for it";
    DeferredNotes 1000 deferred_inserts,
        "two sessions insert one key at once, neither notes it, and two rows have one key";
    InOrder 4000 three_writers,
        "a commit is marked before one in front of it, and a scan sees rows change under its snapshot";
    LateCommit 1000 late_and_changed,
        "a session sees the rows of a commit whose definitions are not in force";
    LateFollowers 4000 late_and_followed,
        "a snapshot is ahead of a commit that is not marked, and a scan sees rows change under it";
    DependenceNoted 1000 early_writers,
        "a session acts on a commit that its next snapshot does not see, and the row is there twice";
    Depends 1000 early_writers,
        "a session acts on a commit that its next snapshot does not see, and the row is there twice";
    SnapshotDepends 30000 early_writers_apart,
        "a client has an answer that shows a newer commit than its session met, and a crash loses the commit";
    Carried 1000 pipeline,
        "the next transaction of a session does not see the commit of the last one";
    DurableAnswer 1000 early_writers_and_crash,
        "a client has an answer that depends on a commit, and a crash loses the commit";
    DurableAbort 8000 locked_and_aborted,
        "a lock comes to a third session by a rollback, and its next snapshot misses what the first holder wrote";
    DurableLocks 4000 shared_and_deleted,
        "a lock in memory ends, and the next holder's snapshot misses what the last holder wrote";
    DurableCollector 4000 changed_and_pruned_early,
        "a version is removed before its end is published, and the next snapshot loses the row";
    OnePredicate 2000 shared_and_deleted,
        "a wait ends at the mark, the lock ends at the publication, and the waiter asks again and again";
    MarkedStays 4000 early_writers_and_failure,
        "a flush fails, its commit is taken back, and a version that was built on it hangs in the air";
}

const GARDENER: ActorPlan = ActorPlan::Gardener { rounds: 5 };
const PRUNER: ActorPlan = ActorPlan::Pruner { rounds: 3 };
const VACUUM: ActorPlan = ActorPlan::Vacuum { passes: 2 };
const OLD_READER: ActorPlan = ActorPlan::OldReader { held: false };

fn there_and_back(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_a(a(2), 0)])])
        .session(vec![tx(vec![scan(all(0))]), tx(vec![scan(all(0))])])
        .with(PRUNER)
}

fn there_and_back_evicted(random: &mut Random) -> Plan {
    there_and_back(random).with(ActorPlan::Writer { rounds: 100 })
}

fn delete_and_insert(_: &mut Random) -> Plan {
    Plan::new().session(vec![tx(vec![delete(a(0))]), tx(vec![insert(2, 2)])]).with(PRUNER)
}

fn deleted_and_all_visible(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![delete(a(0))])])
        .session(vec![tx(vec![index_only(all(0))]), tx(vec![index_only(all(0))])])
        .with(GARDENER)
        .with(VACUUM)
}

fn changed_beside_an_old_reader(_: &mut Random) -> Plan {
    let change = |to| tx(vec![set_b(a(0), to)]);
    Plan::new()
        .session(vec![change(1), change(2), change(0), change(1)])
        .with(PRUNER)
        .with(OLD_READER)
}

fn changed_and_cleaned(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_b(a(2), 2)])])
        .session(vec![tx(vec![scan(all(0))]), tx(vec![index_only(all(0))])])
        .with(GARDENER)
}

fn changed_and_settled(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)])])
        .session(vec![tx(vec![scan(all(0))]), tx(vec![index_only(all(0))])])
        .with(PRUNER)
        .with(ActorPlan::Tender { rounds: 3 })
}

fn dead_and_dead_again(_: &mut Random) -> Plan {
    let insertion = aborted(vec![insert(2, 2)]);
    Plan::new()
        .session([vec![tx(vec![delete(a(0))])], vec![insertion; 3]].concat())
        .with(VACUUM)
        .with(ActorPlan::Pruner { rounds: 6 })
        .with(ActorPlan::Tender { rounds: 3 })
}

fn aborted_before_a_build(_: &mut Random) -> Plan {
    Plan::new()
        .second_on_a()
        .third(third_on_b(false), false)
        .session(vec![aborted(vec![set_b(a(0), 2)]), tx(vec![delete(a(0))])])
        .with(ActorPlan::Build)
        .with(ActorPlan::Pruner { rounds: 6 })
        .with(ActorPlan::Tender { rounds: 3 })
}

fn dropped_and_rolled_back(_: &mut Random) -> Plan {
    Plan::new()
        .third(third_on_b(false), true)
        .session(vec![tx(vec![delete(a(0))])])
        .with(ActorPlan::Dropper { rounds: 3 })
        .with(ActorPlan::Pruner { rounds: 6 })
}

fn build_beside_settling(_: &mut Random) -> Plan {
    Plan::new()
        .third(third_on_b(false), false)
        .session(vec![tx(vec![delete(a(0))])])
        .with(ActorPlan::Build)
        .with(ActorPlan::Pruner { rounds: 6 })
        .with(ActorPlan::Tender { rounds: 3 })
}

fn two_writers(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![tx(vec![set_b(a(0), 2), scan(all(1))])])
}

fn changed_and_pruned(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)]), tx(vec![set_b(a(0), 2)])])
        .session(vec![repeatable(vec![Statement::HeapScan]), repeatable(vec![Statement::HeapScan])])
        .with(PRUNER)
}

fn statements_beside_changes(_: &mut Random) -> Plan {
    // Long, so that it is often between reading the published CSN and storing the snapshot.
    let changes = [1, 2, 0, 1].map(|to| tx(vec![set_b(a(0), to)]));
    Plan::new()
        .session(vec![tx(vec![Statement::HeapScan; 8])])
        .session(changes.to_vec())
        .with(ActorPlan::Pruner { rounds: 8 })
}

fn shared_snapshot(_: &mut Random) -> Plan {
    // The worker's slot comes before its leader's.
    Plan::new()
        .with(ActorPlan::Worker { leader: 1 })
        .session(vec![repeatable(vec![Statement::HeapScan; 4])])
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .with(ActorPlan::Pruner { rounds: 8 })
}

fn follower_beside_pruning(_: &mut Random) -> Plan {
    let change = |to| tx(vec![set_b(a(0), to)]);
    Plan::new().session(vec![change(1)]).session(vec![change(2), change(0), change(2)]).with(PRUNER)
}

fn follower_that_waits(_: &mut Random) -> Plan {
    let change = |to| tx(vec![set_b(a(0), to)]);
    Plan::new()
        .session(vec![change(1)])
        .session(vec![change(2), change(0)])
        .session(vec![tx(vec![insert(2, 2)]), tx(vec![set_b(a(1), 0)])])
        .with(PRUNER)
}

fn moved_and_changed(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![tx(vec![away(set_b(a(0), 2))]), tx(vec![set_b(a(0), 0)])])
        .with(PRUNER)
}

fn moved_beside_a_report(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![away(set_b(a(0), 2))]), tx(vec![set_b(a(0), 1)])])
        .with(ActorPlan::OldReader { held: true })
        .with(GARDENER)
}

fn moved_and_deleted(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![
            tx(vec![away(set_b(a(0), 2))]),
            tx(vec![delete(a(0))]),
            tx(vec![away(set_b(a(1), 2))]),
        ])
        .with(VACUUM)
}

fn aborted_and_cleaned(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![aborted(vec![set_a(a(0), 2)]), aborted(vec![set_b(a(0), 2)])])
        .session(vec![tx(vec![set_b(a(0), 1)]), tx(vec![scan(all(0))])])
        .with(GARDENER)
}

fn changed_while_cleaned(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)])])
        .session(vec![aborted(vec![set_b(b(0), 2)]), aborted(vec![set_b(b(0), 1)])])
        .with(PRUNER)
        .with(VACUUM)
}

fn several_cleaners(_: &mut Random) -> Plan {
    let insertion = aborted(vec![insert(2, 2)]);
    Plan::new()
        .session([vec![tx(vec![delete(a(0))])], vec![insertion; 6]].concat())
        .with(ActorPlan::Vacuum { passes: 4 })
        .with(ActorPlan::Vacuum { passes: 4 })
        .with(ActorPlan::Pruner { rounds: 6 })
}

fn changed_and_cleaned_back(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_a(a(2), 0)])])
        .with(PRUNER)
        .with(GARDENER)
}

fn changed_and_tended_back(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_a(a(2), 0)])])
        .with(PRUNER)
        .with(ActorPlan::Tender { rounds: 3 })
}

fn key_of_a_rollback(_: &mut Random) -> Plan {
    let back = vec![Statement::Savepoint, set_a(a(0), 2), Statement::RollBack];
    Plan::new().session(vec![tx(back)]).session(vec![tx(vec![insert(0, 1)])])
}

fn key_taken_meanwhile(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_a(a(2), 0)])])
        .session(vec![tx(vec![insert(0, 2)])])
}

fn build_beside_cleaners(_: &mut Random) -> Plan {
    Plan::new()
        .third(third_on_b(false), false)
        .session(vec![tx(vec![delete(a(0))]), tx(vec![insert(2, 1)])])
        .with(ActorPlan::Build)
        .with(VACUUM)
        .with(PRUNER)
}

fn build_beside_changes(_: &mut Random) -> Plan {
    let change = |to| tx(vec![set_b(a(0), to)]);
    Plan::new()
        .second_on_a()
        .third(third_on_b(false), false)
        .session(vec![change(1), change(2), tx(vec![insert(2, 0), set_b(a(2), 1)])])
        .session(vec![tx(vec![away(set_b(a(1), 2))]), tx(vec![set_b(a(1), 0)])])
        .with(ActorPlan::Build)
        .with(OLD_READER)
}

fn revived_and_crashed(_: &mut Random) -> Plan {
    let mut plan = Plan::new()
        .session(vec![tx(vec![set_a(a(0), 2)]), tx(vec![set_a(a(2), 0)])])
        .session(vec![tx(vec![scan(all(0))]), tx(vec![scan(all(0))])])
        .with(ActorPlan::Writer { rounds: 100 });
    plan.after_crashes = vec![vec![ActorPlan::Session(vec![tx(vec![scan(all(0))])])]];
    plan
}

fn deleted_and_crashed(random: &mut Random) -> Plan {
    let lazy = |statement| TransactionPlan { durable: false, ..tx(vec![statement]) };
    let mut plan = revived_and_crashed(random);
    plan.actors[0] = ActorPlan::Session(vec![lazy(delete(a(0))), lazy(set_a(a(1), 2))]);
    plan.actors[1] = ActorPlan::Session(vec![lazy(scan(all(0))), lazy(scan(all(0)))]);
    plan
}

fn predicate_turns(_: &mut Random) -> Plan {
    let partial = Definition { column: Column::A, partial: true, ..third_on_b(false) };
    Plan::new()
        .second_on_a()
        .third(partial, true)
        .session(vec![tx(vec![set_b(a(1), 0)]), tx(vec![set_b(a(1), 1)])])
        .session(vec![tx(vec![scan(all(2))]), tx(vec![scan(all(2))])])
        .with(PRUNER)
}

fn payload_changes(_: &mut Random) -> Plan {
    // No key changes, only the serial number.
    Plan::new()
        .including_serial()
        .session(vec![tx(vec![set_a(a(0), 0)]), tx(vec![set_a(a(0), 0)])])
        .session(vec![tx(vec![index_only(all(0))]), tx(vec![index_only(all(0))])])
        .with(PRUNER)
}

fn payload_changed_and_cleaned(random: &mut Random) -> Plan {
    changed_and_cleaned(random).including_serial()
}

fn locked_and_moved(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![lock(a(0)), scan(all(0)), scan(all(1))])])
        .session(vec![tx(vec![away(set_b(a(0), 2))]), tx(vec![insert(2, 2)])])
        .session(vec![tx(vec![delete(a(0))])])
        .with(VACUUM)
}

fn locked_and_reused(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx([&[lock(a(0))], &[Statement::HeapScan; 8][..]].concat())])
        .session(vec![tx(vec![away(set_b(a(0), 2))])])
        .session((2..5).map(|key| tx(vec![insert(key, 2)])).collect())
        .with(ActorPlan::Vacuum { passes: 4 })
}

fn locked_outside(_: &mut Random) -> Plan {
    let for_update = Statement::Lock { wanted: a(0), exclusive: true };
    let inner = [Statement::Savepoint, set_b(a(0), 2), Statement::RollBack];
    Plan::new()
        .session(vec![tx([&[for_update], &inner[..], &[Statement::HeapScan; 4]].concat())])
        .session(vec![tx(vec![set_b(a(0), 1)])])
}

fn expression_there_and_back(_: &mut Random) -> Plan {
    Plan::new()
        .third(third_on_b(true), true)
        .session(vec![tx(vec![set_b(a(0), 2)]), tx(vec![set_b(a(0), 1)])])
        .with(ActorPlan::Deleter { rounds: 8 })
        .with(PRUNER)
}

fn expression_changed_and_settled(_: &mut Random) -> Plan {
    let changes = (0..4).map(|n| tx(vec![set_b(a(0), 2 * n + 2)]));
    Plan::new()
        .third(third_on_b(true), true)
        .session(changes.collect())
        .session(vec![tx(vec![scan(all(2))]), tx(vec![scan(all(2))])])
        .with(ActorPlan::Tender { rounds: 6 })
        .with(PRUNER)
}

fn inserts_that_split(_: &mut Random) -> Plan {
    let mut plan = Plan::new()
        .session(vec![tx(vec![insert(2, 0)]), tx(vec![set_a(a(1), 3)])])
        .session(vec![tx(vec![insert(4, 1)]), tx(vec![scan(all(0))])]);
    plan.leaf_capacity = 2;
    plan
}

fn deferred_inserts(_: &mut Random) -> Plan {
    let mut plan =
        Plan::new().session(vec![tx(vec![insert(2, 0)])]).session(vec![tx(vec![insert(2, 1)])]);
    plan.indexes[0].unique = Unique::AtCommit;
    plan
}

fn early_writers(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![pipelined(vec![set_b(a(0), 2), scan(all(1))])])
        .early()
}

/// Makes a transaction whose answers do not come before its next statement: only then does a
/// statement find its own dependence unpublished.
fn pipelined(statements: Vec<Statement>) -> TransactionPlan {
    TransactionPlan { pipelined: true, ..tx(statements) }
}

fn three_writers(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![set_b(a(1), 2)])])
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![pipelined(vec![set_b(a(0), 2), scan(all(0)), scan(all(1))])])
        .early()
}

fn late(statements: Vec<Statement>) -> TransactionPlan {
    TransactionPlan { late: true, ..tx(statements) }
}

fn late_and_changed(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![late(vec![set_b(a(0), 1)])])
        .session(vec![pipelined(vec![set_b(a(0), 2), scan(all(0))])])
        .early()
}

fn late_and_followed(_: &mut Random) -> Plan {
    let mut plan = three_writers(&mut Random::new(0));
    plan.actors[0] = ActorPlan::Session(vec![late(vec![set_b(a(1), 2)])]);
    plan
}

fn early_writers_apart(_: &mut Random) -> Plan {
    let statements = vec![set_b(a(0), 2), scan(all(0))];
    let rollback = TransactionPlan { end: End::Abort, ..pipelined(statements) };
    let reads = TransactionPlan { pipelined: true, ..repeatable(vec![Statement::HeapScan; 4]) };
    Plan::new()
        .session(vec![tx(vec![set_b(a(0), 1)])])
        .session(vec![pipelined(vec![set_b(a(1), 2)]), reads])
        .session(vec![rollback])
        .crashing(120)
        .early()
}

fn pipeline(_: &mut Random) -> Plan {
    Plan::new().session(vec![pipelined(vec![set_b(a(0), 1)]), tx(vec![scan(all(0))])]).early()
}

fn early_writers_and_crash(random: &mut Random) -> Plan {
    early_writers(random).crashing(120)
}

fn locked_and_aborted(_: &mut Random) -> Plan {
    let row = lock_exclusively(a(0));
    let rollback = TransactionPlan { end: End::Abort, ..pipelined(vec![row]) };
    Plan::new()
        .session(vec![tx(vec![row, set_b(a(1), 2)])])
        .session(vec![rollback])
        .session(vec![pipelined(vec![row, scan(all(0))])])
        .early()
}

fn shared_and_deleted(_: &mut Random) -> Plan {
    Plan::new()
        .session(vec![tx(vec![lock(a(0)), set_b(a(1), 2)])])
        .session(vec![pipelined(vec![delete(a(0)), scan(all(0))])])
        .early()
}

fn changed_and_pruned_early(random: &mut Random) -> Plan {
    changed_and_pruned(random).early()
}

fn early_writers_and_failure(random: &mut Random) -> Plan {
    early_writers_and_crash(random).with(ActorPlan::FailingDevice)
}
