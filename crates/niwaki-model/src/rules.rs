//! The rules of the protocol; each can be left out.

/// Declares [`Rule`] with the facts about each rule: its name on the command line, its source, its
/// text.
macro_rules! rules {
    ($($variant:ident $name:literal $source:literal $text:literal)*) => {
        /// One rule of the protocol. Its scenario in [`crate::scenarios`] shows the fault that
        /// appears without it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = $text] $variant,)*
        }

        impl Rule {
            /// All rules, in the order of the design.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)*];

            /// Returns the rule's name on the command line and in the README.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$variant => $name,)* }
            }

            /// Returns the rule of docs/internals/invariants.md that has this one as a part.
            pub const fn source(self) -> &'static str {
                match self { $(Rule::$variant => $source,)* }
            }

            /// Returns the rule's text.
            pub const fn text(self) -> &'static str {
                match self { $(Rule::$variant => $text,)* }
            }
        }
    };
}

rules! {
    NoDuplicates "no-duplicates" "no-duplicates"
        "Inserting an entry (key, root) that is already there inserts nothing."
    Revive "revive" "no-duplicates"
        "An entry marked LP_DEAD that is found to be there already loses the mark."
    Recheck "recheck" "recheck"
        "An entry of a mixed root returns the visible version only if that version has the entry's key."
    KillUnchanged "kill-unchanged" "dead-marks"
        "A scan marks entries LP_DEAD only if the leaf's version did not change since the scan read it."
    ReuseAfterEntries "reuse-after-entries" "reuse-after-entries"
        "A line pointer is reused only after every index entry for it is gone."
    MapUnderLatch "map-under-latch" "map-under-latch"
        "Index-only scans test the visibility map while they hold the leaf's latch."
    MapHorizon "map-horizon" "map-under-latch"
        "All-visible is set only when every snapshot sees every version on the page."
    MapUnmixed "map-unmixed" "map-under-latch"
        "All-visible is never set over a mixed root."
    Published "published" "published"
        "Waiters, updaters, followers and unique checks treat a transaction as in progress until its CSN is published."
    UnmixCounter "unmix-counter" "unmix-counter"
        "A scan skips the recheck only if no root was cleared of `mixed` since it read the leaf."
    EndPublished "end-published" "removable"
        "A version is removable only if its end was published when the collector began."
    PublishedFirst "published-first" "removable"
        "The collector reads the published CSN before the slots."
    Pending "pending" "snapshot-slot"
        "Each session that takes a snapshot stores PENDING first, also over an earlier snapshot."
    SnapshotShared "snapshot-shared" "snapshot-slot"
        "A snapshot is shared by reference count on its slot, never copied from slot to slot."
    OneLatch "one-latch" "follow-again"
        "A follower visits all versions of a page under one latch hold."
    Restart "restart" "follow-again"
        "After a wait, a follower starts again from the version that its snapshot sees."
    Stub "stub" "stub"
        "A moved-in root shrinks to a stub, not to a redirect or DEAD, while a snapshot may follow it."
    StubsForFollowers "stubs-for-followers" "stub"
        "Stubs wait only for snapshots that may follow them: a long report keeps no stub."
    HopCheck "hop-check" "hop-check"
        "Every hop requires that the target's xmin is the source's xmax."
    RelinkXmax "relink-xmax" "hop-check"
        "Relinking copies the link and the xmax of the removed version, not the link alone."
    CompleteRecord "complete-record" "complete-record"
        "The gardener frees line pointers and clears `mixed` only with an unbroken record of the root's keys."
    SeenAfter "seen-after" "complete-record"
        "A removed version counts as cleaned up only after its entries are gone."
    UnknownStays "unknown-stays" "complete-record"
        "If a version may still have the key of an entry, the entry is not cleaned up, and stays counted."
    OwnRecord "own-record" "complete-record"
        "A removed version is subtracted from the record under which it was removed, and from no later one."
    LastOfChain "last-of-chain" "complete-record"
        "The record of a root that dies unmixed waits for the last version of its chain, not for a version beside the chain."
    ChangesWait "changes-wait" "complete-record"
        "A transaction that changes the indexes cleans up no removed version before it has committed."
    OutsideChain "outside-chain" "complete-record"
        "The gardener clears `mixed` only when no unpruned version of the root is outside its chain."
    Cleaning "cleaning" "mixed-flag"
        "A cleaner writes `cleaning` before its first index visit, and clears only roots that still say `cleaning`."
    MixedFirst "mixed-first" "mixed-flag"
        "An update writes `mixed` in its heap record, before any entry."
    PredicateMixes "predicate-mixes" "mixed-flag"
        "An update that turns a partial index's predicate true or false writes `mixed`."
    PayloadMixes "payload-mixes" "mixed-flag"
        "An update that changes an INCLUDE column alone writes `mixed`."
    AbortKeepsMixed "abort-keeps-mixed" "mixed-flag"
        "Neither abort nor pruning clears `mixed`."
    ClearByVisit "clear-by-visit" "mixed-flag"
        "`mixed` is cleared only after the indexes were visited, not because one version is left."
    OneCleaner "one-cleaner" "one-cleaner"
        "One cleaner at a time; its records name the incarnation of the line pointer."
    OneHold "one-hold" "one-hold"
        "Judging an entry and deleting it are one exclusive hold of the leaf."
    ArrivalsCounted "arrivals-counted" "one-hold"
        "An entry that was judged before is deleted only if no version came to the root since then."
    UniqueAllVersions "unique-all-versions" "unique-check"
        "A unique check examines every version of a chain, not the newest alone."
    UniqueBeforeDuplicate "unique-before-duplicate" "unique-check"
        "The unique check comes before duplicate suppression."
    UniqueOwnRoot "unique-own-root" "unique-check"
        "A unique check skips its own root."
    BuildExcludesCleaners "build-excludes-cleaners" "index-build"
        "While an index is being built no line pointer is freed and no `mixed` cleared."
    BuildSetsMixed "build-sets-mixed" "index-build"
        "A build sets `mixed` on each root to which it gives more than one key."
    BuildEndsRecords "build-ends-records" "index-build"
        "Clean-up during an index build counts for nothing: the end of the build ends all records."
    CompareUnready "compare-unready" "index-build"
        "Updates compare the keys of all indexes, ready or not."
    ValidateAll "validate-all" "index-build"
        "Validation adds entries for every version that is not removable, whether its snapshot sees it or not."
    SuppressionBumps "suppression-bumps" "leaf-version"
        "Suppressing a duplicate changes the leaf's version."
    LeafVersionGlobal "leaf-version-global" "leaf-version"
        "A leaf that enters the pool gets a version number that was never used before."
    ReviveLogged "revive-logged" "dead-marks"
        "Clearing LP_DEAD is logged."
    KillFlushed "kill-flushed" "dead-marks"
        "LP_DEAD is set only when the commits that justify it are flushed."
    PayloadRewritten "payload-rewritten" "payload-rewritten"
        "Before `mixed` is cleared, the entries of the remaining version get its payload."
    LocksCarried "locks-carried" "root-identity"
        "An update that moves a row moves its row locks too."
    LockedRootStays "locked-root-stays" "root-identity"
        "A line pointer that row locks name is not freed."
    OuterLockMoves "outer-lock-moves" "root-identity"
        "A lock that stands in a version moves to memory before an inner level writes over it."
    CopiesChecked "copies-checked" "bytes-under-latch"
        "Results that were computed on copies are used only if page and leaf did not change since."
    MoveRight "move-right" "move-right"
        "An actor that latches a leaf moves right while the key is beyond the leaf's high key."
    DeferredNotes "deferred-notes" "unique-check"
        "A deferred check notes a possible duplicate under the latch that inserts the entry."
    InOrder "in-order" "early-release"
        "A commit is logged and marked in one hold of the queue's lock, so marks come in the order of the log."
    LateCommit "late-commit" "early-release"
        "A commit with definitions is marked when it is published, together with its definitions."
    LateFollowers "late-followers" "early-release"
        "A commit is not marked before a late commit in front of it."
    DependenceNoted "dependence-noted" "early-release"
        "A transaction that judges by a logged commit notes that it depends on this commit."
    Depends "depends" "early-release"
        "Later snapshots of a dependent transaction are at or after the commit that it met."
    SnapshotDepends "snapshot-depends" "early-release"
        "A session that takes a snapshot depends on the newest commit that the snapshot sees."
    Carried "carried" "early-release"
        "A session carries its dependence, and its own commits, to its next transaction."
    DurableAnswer "durable-answer" "early-release"
        "No answer, error or acknowledgement leaves before the commits behind it are published."
    DurableAbort "durable-abort" "early-release"
        "A dependent transaction or savepoint marks its abort only after its dependence is published."
    DurableLocks "durable-locks" "early-release"
        "Row locks in memory stay until their holder's commit is published."
    DurableCollector "durable-collector" "early-release"
        "The collector reads the published CSN, not the logged one."
    OnePredicate "one-predicate" "early-release"
        "The question after a wait is the question that the wait answered."
    MarkedStays "marked-stays" "early-release"
        "A failed flush takes no mark back: the outcome of the commit is unknown."
}

/// The rules that hold in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules(u128);

impl Rules {
    /// All rules: the whole protocol.
    pub const ALL: Self = Self(u128::MAX);

    /// Returns all of these rules except `rule`.
    pub fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u8))
    }

    /// Returns whether `rule` holds.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
}

const _: () = assert!(Rule::ALL.len() <= 128);
