//! Updates, deletions and row locks: from a snapshot's visible version to the row's newest version
//! (docs/internals/design.md, "The update rule").

use crate::access::snapshots::{collect, wait_for};
use crate::access::transaction::{Refused, Transaction};
use crate::plan::{Isolation, Place, To};
use crate::rules::Rule;
use crate::scheduler::Actor;
use crate::state::heap::{Mixed, State, Tid, Values, Version};
use crate::state::index::{Phase, entry};
use crate::state::oracle::{Wanted, Write};
use crate::state::transactions::{Status, Until, Xid};
use crate::state::violation::Invariant;
use crate::state::world::World;
use crate::statement::scan::Found;
use crate::statement::unique::insert_entry;

/// The change to make to the row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Update { to: To, place: Place },
    Delete,
    Lock { exclusive: bool },
}

/// The result of one latch hold.
enum Outcome {
    Done,
    /// The row is changed, and these entries must be inserted: (index, key, payload), all for one
    /// root.
    Entries {
        root: Tid,
        owed: Vec<(usize, u8, u16)>,
        mixed_later: bool,
    },
    Wait(Xid, Until),
    /// The walk continues from the follower's place, in another latch hold.
    GoOn,
    Refused(Refused),
}

/// The place of a follower.
struct Follower {
    at: Tid,
    /// The xmin expected there; `None` at the version that the snapshot sees.
    expected: Option<Xid>,
}

/// Changes the newest version of the row whose visible version was `found`, if it still matches.
pub(crate) async fn change(
    actor: &Actor,
    tx: &mut Transaction,
    found: Found,
    wanted: Wanted,
    how: How,
) -> Result<(), Refused> {
    if matches!(how, How::Update { .. }) && actor.world().random.one_in(2) {
        // An update that needs room prunes its page first.
        let view = collect(actor).await;
        actor.world().prune(found.tid.page, &view);
    }
    let start = || Follower { at: found.tid, expected: None };
    let mut follower = start();
    loop {
        actor.step().await;
        let outcome = actor.world().attempt(tx, found, &mut follower, wanted, how);
        match outcome {
            Outcome::Done => return Ok(()),
            Outcome::GoOn => {}
            Outcome::Refused(why) => return Err(why),
            Outcome::Wait(xid, until) => {
                wait_for(actor, tx, xid, until).await?;
                if actor.rules().has(Rule::Restart) {
                    follower = start();
                }
            }
            Outcome::Entries { root, owed, mixed_later } => {
                for (index, key, payload) in owed {
                    actor.step().await;
                    insert_entry(actor, tx, index, entry(key, root, payload)).await?;
                }
                if mixed_later {
                    actor.step().await;
                    actor.world().pointer_mut(root).mixed = Mixed::Yes;
                }
                return Ok(());
            }
        }
    }
}

/// Inserts a row.
pub(crate) async fn insert(
    actor: &Actor,
    tx: &mut Transaction,
    a: u8,
    b: u8,
) -> Result<(), Refused> {
    let (root, owed) = {
        let mut world = actor.world();
        let first = u8::from(world.random.one_in(2));
        let tid = world.unused(first).or_else(|| world.unused(1 - first)).ok_or(Refused::NoRoom)?;
        let row = world.oracle.new_row();
        let values = Values { a, b, serial: 1 };
        world.new_root(tid, tx, row, values, false);
        tx.writes.insert(row, Write { now: Some(values), base: 0 });
        (tid, world.owed_by_new_root(tx, &values))
    };
    for (index, key, payload) in owed {
        actor.step().await;
        insert_entry(actor, tx, index, entry(key, root, payload)).await?;
    }
    Ok(())
}

impl World {
    /// Walks along the row's versions, all versions of a page under this one latch hold
    /// (rule `follow-again`). Changes the newest version if the walk reaches it.
    fn attempt(
        &mut self,
        tx: &mut Transaction,
        found: Found,
        follower: &mut Follower,
        wanted: Wanted,
        how: How,
    ) -> Outcome {
        // Ends: every round returns or follows one more link. Links do not form a circle, and a
        // page has few line pointers.
        loop {
            let page = follower.at.page;
            let (link, xmax) = match self.pointer(follower.at).state {
                State::Redirect(offset) => {
                    follower.at.offset = offset;
                    if !self.rules.has(Rule::OneLatch) {
                        return Outcome::GoOn;
                    }
                    continue;
                }
                State::Stub { xmin, xmax, link } if self.expects(follower, xmin) => (link, xmax),
                State::Normal(version) if self.expects(follower, version.xmin) => {
                    if version.row != found.row {
                        let at = follower.at;
                        self.violate(Invariant::WrongRow, || {
                            format!("follows row {} to row {} at {at}", found.row, version.row)
                        });
                        return Outcome::Done;
                    }
                    match self.judge(tx, &version) {
                        Judged::Free => return self.apply(tx, follower.at, version, wanted, how),
                        Judged::Own => return Outcome::Done,
                        Judged::Busy(xid) => return Outcome::Wait(xid, Until::Logged),
                        Judged::Ended if tx.isolation == Isolation::RepeatableRead => {
                            return Outcome::Refused(Refused::Serialization);
                        }
                        Judged::Ended => {
                            if let Some(link) = version.link {
                                (link, version.xmax)
                            } else {
                                self.concludes_deleted(found.row, "its end has no link");
                                return Outcome::Done;
                            }
                        }
                    }
                }
                _ => {
                    let why = format!("{} is not its successor", follower.at);
                    self.concludes_deleted(found.row, &why);
                    return Outcome::Done;
                }
            };
            self.events.followed += 1;
            self.say(|| format!("follows {} to {link}", follower.at));
            *follower = Follower { at: link, expected: xmax };
            if link.page != page || !self.rules.has(Rule::OneLatch) {
                return Outcome::GoOn;
            }
        }
    }

    /// Checks the hop (rule `hop-check`).
    fn expects(&self, follower: &Follower, xmin: Xid) -> bool {
        follower.expected.is_none_or(|xid| xid == xmin) || !self.rules.has(Rule::HopCheck)
    }

    fn judge(&self, tx: &Transaction, version: &Version) -> Judged {
        let own = |xid: Xid| self.transactions.top(xid) == tx.top;
        let locker =
            version.locker.filter(|xid| self.status_for(tx, *xid) == Status::Running && !own(*xid));
        let free = locker.map_or(Judged::Free, Judged::Busy);
        let Some(xmax) = version.xmax else { return free };
        match self.status_for(tx, xmax) {
            Status::Aborted => free,
            Status::Committed(_) => Judged::Ended,
            Status::Running if own(xmax) => Judged::Own,
            Status::Running => Judged::Busy(xmax),
        }
    }

    /// Changes the row's newest version, under the latch of its page.
    fn apply(
        &mut self,
        tx: &mut Transaction,
        tid: Tid,
        version: Version,
        wanted: Wanted,
        how: How,
    ) -> Outcome {
        // The condition is checked again on the newest version, as READ COMMITTED requires.
        let definition = self.indexes[wanted.index].definition;
        if self.transactions.aborted(version.xmin) || !wanted.matches(&definition, &version.values)
        {
            return Outcome::Done;
        }
        let root = self.root_of(tid);
        let changes_key = match how {
            How::Update { to, .. } => to.a.is_some_and(|a| a != version.values.a),
            How::Delete => true,
            How::Lock { exclusive } => exclusive,
        };
        if let Some(holder) = self.lock_holder(root, tx.top, changes_key) {
            return Outcome::Wait(holder, Until::Published);
        }
        self.concludes_unlocked(&version, tx, changes_key);
        if let How::Lock { exclusive } = how {
            self.lock_row(tid, tx, &version, exclusive);
            return Outcome::Done;
        }
        let base = tx.writes.get(&version.row).map_or(version.values.serial, |write| write.base);
        let How::Update { to, place } = how else {
            self.events.deletes += 1;
            self.say(|| format!("deletes row {} at {tid}", version.row));
            self.end_version(tid, tx, None);
            tx.writes.insert(version.row, Write { now: None, base });
            return Outcome::Done;
        };
        let values = Values {
            a: to.a.unwrap_or(version.values.a),
            b: to.b.unwrap_or(version.values.b),
            serial: version.values.serial + 1,
        };
        let away = match place {
            Place::Here => false,
            Place::Away => true,
            Place::Any => self.random.one_in(5),
        };
        let outcome = match self.unused(tid.page).filter(|_| !away) {
            Some(to) => self.heap_only(tx, tid, to, &version, values),
            None => match self.unused(1 - tid.page) {
                Some(to) => self.move_row(tx, tid, to, &version, values),
                None => return Outcome::Refused(Refused::NoRoom),
            },
        };
        tx.writes.insert(version.row, Write { now: Some(values), base });
        outcome
    }

    /// Puts the new version on the same page: only indexes whose key changed get an entry.
    fn heap_only(
        &mut self,
        tx: &Transaction,
        tid: Tid,
        to: Tid,
        old: &Version,
        values: Values,
    ) -> Outcome {
        self.events.heap_only += 1;
        let root = self.root_of(tid);
        self.say(|| format!("updates {tid} to {to} of root {root}: {} to {values}", old.values));
        self.end_version(tid, tx, Some(to));
        self.note_arrival(root);
        self.pointer_mut(to).state = State::Normal(Version {
            heap_only: true,
            root: root.offset,
            ..Self::fresh(tx, old.row, values)
        });
        let mut owed = Vec::new();
        let mut mixed = false;
        for index in 0..self.indexes.len() {
            let definition = self.indexes[index].definition;
            // All indexes that the transaction knows of, ready or not (rule `index-build`).
            let needed =
                if self.rules.has(Rule::CompareUnready) { Phase::Defined } else { Phase::Ready };
            if tx.known[index] < needed {
                continue;
            }
            let (before, after) = (definition.key(&old.values), definition.key(&values));
            let payload = definition.payload(&values);
            let predicate = before.is_some() != after.is_some();
            let other = payload != definition.payload(&old.values);
            mixed |= before != after && (!predicate || self.rules.has(Rule::PredicateMixes))
                || other && self.rules.has(Rule::PayloadMixes);
            if let Some(key) = after.filter(|_| before != after && tx.inserts_into(index)) {
                owed.push((index, key, payload));
            }
        }
        let first = self.rules.has(Rule::MixedFirst);
        if mixed && first {
            if self.pointer(root).mixed == Mixed::No {
                self.settling.begin(root);
            }
            self.pointer_mut(root).mixed = Mixed::Yes;
        }
        Outcome::Entries { root, owed, mixed_later: mixed && !first }
    }

    /// Puts the new version on the other page, as a new root, with entries in every index.
    fn move_row(
        &mut self,
        tx: &Transaction,
        tid: Tid,
        to: Tid,
        old: &Version,
        values: Values,
    ) -> Outcome {
        self.events.moved += 1;
        let root = self.root_of(tid);
        self.say(|| {
            format!("moves row {} from {tid} to {to}: {} to {values}", old.row, old.values)
        });
        self.end_version(tid, tx, Some(to));
        self.new_root(to, tx, old.row, values, true);
        self.carry_locks(root, to);
        Outcome::Entries { root: to, owed: self.owed_by_new_root(tx, &values), mixed_later: false }
    }

    fn new_root(&mut self, tid: Tid, tx: &Transaction, row: u8, values: Values, moved_in: bool) {
        if !moved_in {
            self.say(|| format!("inserts row {row} at {tid}: {values}"));
        }
        let version = Version { root: tid.offset, ..Self::fresh(tx, row, values) };
        self.note_arrival(tid);
        let pointer = self.pointer_mut(tid);
        pointer.state = State::Normal(version);
        pointer.mixed = Mixed::No;
        pointer.moved_in = moved_in;
        pointer.born = version.xmin;
        self.records.remove(&tid);
        self.settling.end(tid);
        self.pages[usize::from(tid.page)].all_visible = false;
    }

    fn owed_by_new_root(&self, tx: &Transaction, values: &Values) -> Vec<(usize, u8, u16)> {
        let indexes = self.indexes.iter().enumerate().filter(|(index, _)| tx.inserts_into(*index));
        indexes
            .filter_map(|(n, index)| {
                Some((n, index.definition.key(values)?, index.definition.payload(values)))
            })
            .collect()
    }

    fn fresh(tx: &Transaction, row: u8, values: Values) -> Version {
        Version {
            row,
            values,
            xmin: tx.current,
            cmin: tx.command,
            xmax: None,
            cmax: 0,
            locker: None,
            link: None,
            heap_only: false,
            root: 0,
        }
    }

    fn end_version(&mut self, tid: Tid, tx: &Transaction, link: Option<Tid>) {
        self.keep_outer_lock(tid, tx);
        let version = self.version_mut(tid);
        version.xmax = Some(tx.current);
        version.cmax = tx.command;
        version.locker = None;
        version.link = link;
        self.pages[usize::from(tid.page)].all_visible = false;
    }
}

/// Tells whether a version may be changed.
enum Judged {
    Free,
    /// This transaction has changed the version already.
    Own,
    Busy(Xid),
    /// The version was replaced or deleted, and the end is published.
    Ended,
}
