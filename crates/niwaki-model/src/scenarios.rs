//! The scenarios: a mixture of everything, and for each rule a short story that breaks without it.

use crate::plan::{
    ActorPlan, Plan, Statement, TransactionPlan, a, aborted, all, away, b, delete, index_only,
    insert, lock, random_sessions, repeatable, scan, set_a, set_b, third_index, third_on_b, tx,
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
}

/// The mixture of all kinds of actors.
pub const MIXTURE: Scenario = Scenario {
    name: "mixture",
    about: "three or four sessions of random statements, and whoever else comes by",
    plan: mixture,
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
            scenario: Scenario { name: Rule::$rule.name(), about: $about, plan: $plan },
            schedules: $schedules,
        },)*];
    };
}

stories! {
    NoDuplicates 1000 there_and_back,
        "a key goes there and back: two entries for the row";
    Revive 1000 there_and_back,
        "a key comes back to an entry that was marked dead meanwhile: no scan finds the row";
    Recheck 1000 there_and_back,
        "an old entry leads to the new version: the row for a key it does not have";
    KillUnchanged 1000 there_and_back,
        "judged dead, then the key comes back, then marked: no scan finds the row";
    ReuseAfterEntries 1000 delete_and_insert,
        "an old entry leads to whatever uses its line pointer now";
    MapUnderLatch 2000 deleted_and_all_visible,
        "an entry is read, the row is removed, the page becomes all-visible: the row is there again";
    MapHorizon 1000 changed_beside_an_old_reader,
        "an index-only scan shows an old reader what was committed after its snapshot";
    MapUnmixed 1000 changed_and_cleaned,
        "an index-only scan believes an old entry, and shows the row twice";
    Published 1000 two_writers,
        "one acts on a commit that its next snapshot does not see: the row twice";
    UnmixCounter 2000 changed_and_cleaned,
        "an old entry is read, deleted, the root cleared: the scan trusts the entry and shows the row twice";
    EndPublished 4000 changed_and_pruned,
        "removed before the commit is published: the next snapshot has lost the row";
    PublishedFirst 4000 changed_and_pruned,
        "a snapshot is taken between the slots and the published CSN: its version is removed";
    Pending 1000 statements_beside_changes,
        "the slot shows the old snapshot while the new one is being taken: the new one loses rows";
    SnapshotShared 2000 shared_snapshot,
        "copied to a slot that was read before, released from one that is read after: nobody sees it";
    OneLatch 4000 follower_beside_pruning,
        "the next version is pruned between two looks at the page: the update is lost";
    Restart 12000 follower_that_waits,
        "the version at which it waited is pruned meanwhile, its line pointer another row's";
    Stub 1000 moved_and_changed,
        "a redirect leads past the version whose xmin the follower expects: the update is lost";
    StubsForFollowers 1000 moved_beside_a_report,
        "each move leaves a stub for as long as the report runs";
    HopCheck 8000 moved_and_deleted,
        "the successor's line pointer is another row's: the wrong row is changed";
    RelinkXmax 1000 changed_beside_an_old_reader,
        "the link and the xmax do not belong together: the rest of the chain is lost";
    CompleteRecord 4000 changed_and_cleaned,
        "an entry whose key was lost from the record stays, and is trusted";
    SeenAfter 4000 changed_and_settled,
        "the root is cleared while the entry is still there, and trusted";
    UnknownStays 8000 expression_changed_and_settled,
        "a version of unknown key comes while the leaf is looked for: the entry is trusted";
    OwnRecord 8000 dead_and_dead_again,
        "seen to for the row that had the line pointer before: freed, with an entry that leads to it";
    LastOfChain 20000 aborted_before_a_build,
        "entries of a key are seen to that the row never had in the new index: its own leads to nothing";
    ChangesWait 8000 dropped_and_rolled_back,
        "seen to while an index was dropped, which is back: freed, with an entry there that leads to it";
    OutsideChain 1000 aborted_and_cleaned,
        "the entry of an aborted version that is not pruned yet stays, and is trusted";
    Cleaning 1000 changed_while_cleaned,
        "an update comes and goes behind the cleaner's back: its entry stays, and is trusted";
    MixedFirst 1000 there_and_back,
        "the entry is there before the mark: the row for a key it does not have";
    PredicateMixes 1000 predicate_turns,
        "the entry leads to a version that is not of the index any more";
    PayloadMixes 1000 payload_changes,
        "an index-only scan shows the entry's payload, which is an older version's";
    AbortKeepsMixed 1000 aborted_and_cleaned,
        "the aborted update's entry is trusted";
    ClearByVisit 1000 there_and_back,
        "the old key's entry is trusted";
    OneCleaner 1000 several_cleaners,
        "freed, used, dead again, and freed by somebody with an older list: an entry to nothing";
    OneHold 2000 changed_and_cleaned_back,
        "judged deletable, then the key comes back, then deleted: no scan finds the row";
    ArrivalsCounted 2000 changed_and_tended_back,
        "a pass leaves the key behind, then it comes back, then its entry is deleted: no scan finds the row";
    UniqueAllVersions 1000 key_of_a_rollback,
        "the newest version has another key, and is rolled back: two rows with one key";
    UniqueBeforeDuplicate 1000 key_taken_meanwhile,
        "the old entry is there, so nobody asks who has the key now: two rows with one key";
    UniqueOwnRoot 1000 there_and_back,
        "a row's own old version refuses it the key";
    BuildExcludesCleaners 1000 build_beside_cleaners,
        "read by the build, freed, used by another row, then loaded: a wrong entry for ever";
    BuildSetsMixed 1000 build_beside_changes,
        "the build gives a root two keys, and both are trusted";
    BuildEndsRecords 8000 build_beside_settling,
        "read by the build, dead, seen to in the other indexes, then loaded: freed under its entry";
    CompareUnready 1000 build_beside_changes,
        "a change of a key that only the new index has leaves no mark";
    ValidateAll 1000 build_beside_changes,
        "an old reader uses the new index and misses the version that only it sees";
    SuppressionBumps 1000 there_and_back,
        "judged dead, then a duplicate suppressed, then marked: no scan finds the row";
    LeafVersionGlobal 2000 there_and_back_evicted,
        "the leaf was changed, and comes back with the version it had: the mark is wrong";
    ReviveLogged 6000 revived_and_crashed,
        "the mark is on disk, taken back in memory only: after a crash no scan finds the row";
    KillFlushed 1000 deleted_and_crashed,
        "the mark is on disk, the deletion is not: after a crash no scan finds the row";
    PayloadRewritten 1000 payload_changed_and_cleaned,
        "the entry has an older version's payload, and is trusted";
    LocksCarried 1000 locked_and_moved,
        "a locked row moves, and is deleted in spite of the lock";
    LockedRootStays 10000 locked_and_reused,
        "a lock counts for the row that uses the line pointer now";
    OuterLockMoves 1000 locked_outside,
        "rolled back to a savepoint, the row that is still locked is another's to change";
    CopiesChecked 1000 expression_there_and_back,
        "judged on copies, then the key comes back, then deleted: no scan finds the row";
    MoveRight 1000 inserts_that_split,
        "the leaf was split after the descent: the entry goes where nobody looks for it";
    DeferredNotes 1000 deferred_inserts,
        "two insert one key at once, and neither notes it: two rows with one key";
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
        .session(vec![repeatable(vec![Statement::HeapScan; 8])])
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
