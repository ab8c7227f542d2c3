//! Durability of transaction states: status pages, checkpoints, redo.
//!
//! - A commit record says that a transaction committed. After a crash, a transaction without a
//!   commit record is aborted.
//! - A segment is *shrunk* when its transactions have all ended and no snapshot stands between its
//!   commits. Its states go to the status page of the same number, two bits each. Memory keeps one
//!   CSN for all its commits, as long as a snapshot is older than that.
//! - A checkpoint logs the states that are not shrunk yet, in two bits each.
//! - Recovery after a crash shrinks everything and begins a new segment, so that the ids of lost
//!   transactions are not assigned again. After a clean shutdown the segment goes on.

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::{
    CheckpointParticipant, Corruption, Csn, DecodedRecord, LogAnalysis, Lsn, Manager, Record, Redo,
    ResourceManager, Storage, Xid,
};

use crate::error::Result;
use crate::handle::manager::TransactionManager;
use crate::visibility::snapshot::Horizon;
use crate::xact::directory::FRAMES_KEPT;
use crate::xact::record::{
    DecodedEnd, DecodedStates, RECORD_ABORT, RECORD_COMMIT, RECORD_SEGMENT, RECORD_SHRUNK,
    RECORD_STATES, StatesRecord,
};
use crate::xact::segment::{
    ABORTED, ANCIENT, RUNNING, Summary, XIDS_PER_SEGMENT, place_of, segment_of,
};
use crate::xact::shrunk::{ANCIENT_CSN, STATUS_FILE, write_status_page};
use crate::xact::status_page::unpack;

impl TransactionManager {
    /// Returns the state of a transaction whose segment is not in memory.
    #[cold]
    pub(crate) fn state_elsewhere(&self, xid: Xid) -> u64 {
        match self.states.spilled_state(xid) {
            Some(Ok(state)) => return state,
            Some(Err(error)) => self.unreadable(xid, &error),
            None => {}
        }
        match xid {
            Xid::INVALID => return ABORTED,
            _ if !xid.is_normal() => return ANCIENT,
            _ if xid >= self.next_xid() => return RUNNING,
            _ => {}
        }
        let Some(storage) = self.storage.get() else { return RUNNING };
        match self.shrunk.page_state(storage, xid) {
            Ok(state) => state,
            Err(error) => self.unreadable(xid, &error),
        }
    }

    /// Ends the process: every answer would be invented, and the caller may hold latches.
    fn unreadable(&self, xid: Xid, error: &crate::error::Error) -> ! {
        self.env().abort(&format!("could not read the status of transaction {xid}: {error}"))
    }

    /// Shrinks every segment that can be shrunk. No latch may be held.
    pub(crate) fn shrink_segments(&self) -> Result<()> {
        let Some(storage) = self.storage.get() else { return Ok(()) };
        let Some(_one_at_a_time) = self.shrunk.shrinking.try_lock() else { return Ok(()) };
        self.shrunk.due.store(false, Ordering::Relaxed);
        let newest = segment_of(self.next_xid());
        let flushed = storage.wal().flushed();
        for segment in self.states.unshrunk() {
            if segment >= newest {
                continue;
            }
            let summary = self.states.summarize(segment);
            let horizon = self.horizon();
            if summary.running || !can_be_shrunk(summary, &horizon, flushed) {
                continue;
            }
            let packed = self.states.pack(segment)?;
            invariant!(
                S1,
                (0..XIDS_PER_SEGMENT as usize)
                    .all(|place| unpack(&packed.0[..], place) != Some(RUNNING)),
                "a transaction of segment {segment} runs, which would have no state any more"
            );
            write_status_page(storage, segment, &packed)?;
            if let Some(last) = summary.last() {
                invariant!(S1, last > ANCIENT_CSN, "{last} stands for the commits of {segment}");
                invariant!(S1, last <= horizon.current(), "{last} of {segment} is not published");
                self.shrunk.recent.write().insert(segment, last);
            }
            self.shrunk.cache.keep(segment, packed, summary.last().unwrap_or(ANCIENT_CSN).0);
            self.states.forget(segment)?;
        }
        let oldest = self.horizon().oldest();
        let mut seen_by_all = Vec::new();
        self.shrunk.recent.write().retain(|segment, csn| {
            if *csn <= oldest {
                seen_by_all.push(*segment);
            }
            *csn > oldest
        });
        self.shrunk.cache.seen_by_all(&seen_by_all);
        self.spill_segments(storage, newest)
    }

    /// Spills the oldest segments beyond `FRAMES_KEPT`, one at a time.
    fn spill_segments(&self, storage: &Storage, newest: u64) -> Result<()> {
        let live = self.states.live();
        debug_assert!(live.is_sorted(), "the oldest of {live:?} is not the first");
        let mut excess = live.len().saturating_sub(FRAMES_KEPT);
        for segment in live {
            if excess == 0 || segment >= newest {
                break;
            }
            let Some(spilled) = self.states.write_segment(storage, segment)? else { continue };
            // No transaction ends while the queue is locked.
            let queue = self.commits.lock();
            let _queue = (!seeded_bug!("spilled_beside_an_end")).then_some(queue);
            self.states.move_to_file(spilled);
            excess -= 1;
        }
        Ok(())
    }

    /// Returns the bytes of memory that the states of transactions take. The bound is 64 MiB,
    /// unless one transaction has hundreds of savepoints open in each of many segments.
    pub fn state_bytes(&self) -> usize {
        self.states.bytes() + self.shrunk.cache.bytes()
    }

    /// Logs the states that are not shrunk, for a recovery that begins now.
    ///
    /// No segment is shrunk between the look at its states and their record. Otherwise a
    /// transaction that ended in between would be running in that record. Recovery would meet that
    /// record after the one that refers to the status page.
    fn log_states(&self, storage: &Storage) -> niwaki_storage::Result<()> {
        let alone = self.shrunk.shrinking.lock();
        let _alone = (!seeded_bug!("states_beside_shrinking")).then_some(alone);
        // The states in the file are read before the queue is locked, so that no transaction waits
        // for the reads.
        let mut spilled = self.states.spilled();
        let mut segments = Vec::new();
        for (number, segment) in &spilled {
            segments.push((*number, self.states.pack_written(segment).map_err(into_storage)?));
        }
        if seeded_bug!("states_without_spilled") {
            spilled.clear();
            segments.clear();
        }
        {
            // The queue has the commits that are logged but not published yet. No transaction logs
            // a commit while the queue is locked.
            let pending = self.commits.lock();
            debug_assert_eq!(segments.len(), spilled.len(), "a spilled segment would be lost");
            for ((number, packed), (of, segment)) in segments.iter_mut().zip(&spilled) {
                debug_assert_eq!(*number, *of, "the ends of {of} would go to {number}");
                segment.pack_ends(packed);
            }
            for segment in self.states.live() {
                segments.push((segment, self.states.pack(segment).map_err(into_storage)?));
            }
            segments.sort_unstable_by_key(|(segment, _)| *segment);
            invariant!(
                W2,
                segments.is_sorted_by(|a, b| a.0 < b.0),
                "a segment is in a frame and in the file at one time"
            );
            for xid in pending.xids() {
                if seeded_bug!("states_without_commit_queue") {
                    break;
                }
                let found = segments.binary_search_by_key(&segment_of(xid), |(at, _)| *at);
                invariant!(W2, found.is_ok(), "no segment has the state of {xid}, which commits");
                if let Ok(at) = found {
                    segments[at].1.set(place_of(xid), ANCIENT);
                }
            }
        }
        let next_xid = self.next_xid();
        let assigned = segments.last().is_none_or(|(last, _)| *last <= segment_of(next_xid));
        invariant!(W2, assigned, "{next_xid} would be assigned again after a shutdown");
        let body = StatesRecord { next_xid, segments: &segments }.encode();
        storage.log(Record {
            manager: Manager::Transaction,
            kind: RECORD_STATES,
            version: 1,
            xid: Xid::INVALID,
            body: &[&body],
            pages: &mut [],
            removes: None,
        })?;
        Ok(())
    }

    /// Makes room for the states of a segment that recovery meets.
    fn recover_segment(&self, segment: u64) -> niwaki_storage::Result<()> {
        let mut highest = self.shrunk.highest.lock();
        *highest = Some(highest.map_or(segment, |highest| highest.max(segment)));
        drop(highest);
        self.states.open_segment(segment, || Ok(())).map_err(|error| {
            niwaki_storage::Error::Refused(format!("transaction states in recovery: {error}"))
        })
    }

    fn recover_states(&self, states: &DecodedStates<'_>) -> niwaki_storage::Result<()> {
        self.recover_segment(segment_of(states.next_xid))?;
        *self.shrunk.logged_next.lock() = Some(states.next_xid);
        for (segment, bytes) in &states.segments {
            self.recover_segment(*segment)?;
            for (at, state) in self.states.segment(*segment).unwrap_or_default().iter().enumerate()
            {
                // A commit replayed before this record is newer than the record's state.
                if state.load(Ordering::Relaxed) == RUNNING {
                    let logged = unpack(bytes, at)
                        .ok_or_else(|| corrupt("a state in a checkpoint has meaningless bits"))?;
                    state.store(logged, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    fn recover_end(
        &self,
        record: &DecodedRecord<'_>,
        redo: &Redo<'_>,
        end: &DecodedEnd,
    ) -> niwaki_storage::Result<()> {
        let committed = record.kind == RECORD_COMMIT;
        for &xid in end.subxids.iter().chain([&record.xid]) {
            if !xid.is_normal() {
                return Err(corrupt("a transaction that ended has no number"));
            }
            self.recover_segment(segment_of(xid))?;
            if committed {
                self.states.commit(xid, Csn(record.lsn.0));
            } else {
                self.states.abort(xid);
            }
        }
        end.files.iter().try_for_each(|file| redo.drop_file(file.id))
    }
}

/// Returns whether one CSN can stand for all commits of the segment. All present and future
/// snapshots must see either all of the commits or none, and no crash may undo one.
fn can_be_shrunk(summary: Summary, horizon: &Horizon, flushed: Lsn) -> bool {
    let Some((first, last)) = summary.commits else { return true };
    invariant!(S1, first <= last, "the first commit is {first} and the last {last}");
    last <= flushed.0 && horizon.none_between(Csn(first), Csn(last))
}

fn too_short() -> niwaki_storage::Error {
    corrupt("a record of the transaction manager is too short")
}

fn corrupt(detail: &str) -> niwaki_storage::Error {
    niwaki_storage::Error::Corruption(Box::new(Corruption {
        file: "log".to_owned(),
        block: None,
        item: None,
        invariant: "format",
        detail: detail.to_owned(),
    }))
}

impl ResourceManager for TransactionManager {
    fn manager(&self) -> Manager {
        Manager::Transaction
    }

    fn analyze(
        &self,
        record: &DecodedRecord<'_>,
        analysis: &mut LogAnalysis,
    ) -> niwaki_storage::Result<()> {
        match record.kind {
            RECORD_COMMIT | RECORD_ABORT => {
                let end = DecodedEnd::decode(record.body).ok_or_else(too_short)?;
                end.files.iter().for_each(|file| analysis.dropped(file.id, record.lsn));
                if record.kind == RECORD_COMMIT {
                    let committed = end.subxids.iter().chain([&record.xid]);
                    committed.for_each(|xid| analysis.committed(*xid));
                }
            }
            RECORD_STATES => {
                let states = DecodedStates::decode(record.body).ok_or_else(too_short)?;
                analysis.found_running(|xid| {
                    let mut segments = states.segments.iter();
                    let found = segments.find(|(segment, _)| *segment == segment_of(xid));
                    found.and_then(|(_, bytes)| unpack(bytes, place_of(xid))) == Some(RUNNING)
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> niwaki_storage::Result<()> {
        match record.kind {
            RECORD_COMMIT | RECORD_ABORT => {
                let end = DecodedEnd::decode(record.body).ok_or_else(too_short)?;
                self.recover_end(record, redo, &end)
            }
            RECORD_STATES => {
                self.recover_states(&DecodedStates::decode(record.body).ok_or_else(too_short)?)
            }
            RECORD_SEGMENT => {
                let segment = record.body.try_into().map(u64::from_le_bytes);
                self.recover_segment(segment.map_err(|_| too_short())?)
            }
            RECORD_SHRUNK => {
                let segment = record.body.try_into().map(u64::from_le_bytes);
                redo.page(0)?;
                // The page knows more than the replayed part of the log.
                let segment = segment.map_err(|_| too_short())?;
                if !seeded_bug!("redo_keeps_shrunk_segment") {
                    self.states.close_segment(segment);
                }
                Ok(())
            }
            other => Err(corrupt(&format!("unknown kind {other} of a transaction record"))),
        }
    }

    /// Aborts every transaction that has not committed by now.
    fn finish_recovery(&self, storage: &Storage, clean: bool) -> niwaki_storage::Result<()> {
        if !storage.file_exists(STATUS_FILE.id)? {
            storage.create_file(STATUS_FILE, Xid::INVALID)?;
        }
        // After a clean shutdown, its checkpoint knows every id that was assigned.
        let logged_next = *self.shrunk.logged_next.lock();
        let next_xid = logged_next.filter(|_| clean).unwrap_or_else(|| {
            let first = self.shrunk.highest.lock().map_or(0, |highest| highest + 1);
            Xid((first * XIDS_PER_SEGMENT).max(Xid::FIRST_NORMAL.0))
        });
        let current = segment_of(next_xid);
        for segment in self.states.live() {
            let first = segment * XIDS_PER_SEGMENT;
            for (xid, state) in (first..).zip(self.states.segment(segment).unwrap_or_default()) {
                if xid < next_xid.0 && state.load(Ordering::Relaxed) == RUNNING {
                    state.store(ABORTED, Ordering::Release);
                }
            }
            if segment != current {
                let packed = self.states.pack(segment).map_err(into_storage)?;
                write_status_page(storage, segment, &packed).map_err(into_storage)?;
                self.states.forget(segment).map_err(into_storage)?;
            }
        }
        self.set_next_xid(next_xid);
        self.states
            .open_segment(current, || {
                log_segment(storage, current)?;
                Ok(())
            })
            .map_err(into_storage)?;
        self.log_states(storage)
    }

    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        let end = |name: &str| match DecodedEnd::decode(record.body) {
            Some(end) => format!(
                "{name} of {} and {} subtransactions at {} µs, {} files dropped",
                record.xid,
                end.subxids.len(),
                end.time_us,
                end.files.len(),
            ),
            None => format!("{name} of {}, damaged", record.xid),
        };
        match record.kind {
            RECORD_COMMIT => end("commit"),
            RECORD_ABORT => end("abort"),
            RECORD_STATES => "transaction states for a checkpoint".to_owned(),
            RECORD_SEGMENT => "a new segment of transaction states".to_owned(),
            RECORD_SHRUNK => "a status page".to_owned(),
            other => format!("unknown kind {other}"),
        }
    }
}

/// Logs that a segment begins to be used.
fn log_segment(storage: &Storage, segment: u64) -> niwaki_storage::Result<Lsn> {
    storage.log(Record {
        manager: Manager::Transaction,
        kind: RECORD_SEGMENT,
        version: 1,
        xid: Xid::INVALID,
        body: &[&segment.to_le_bytes()],
        pages: &mut [],
        removes: None,
    })
}

fn into_storage(error: crate::error::Error) -> niwaki_storage::Error {
    match error {
        crate::error::Error::Storage(error) => error,
        other => niwaki_storage::Error::Refused(other.to_string()),
    }
}

impl CheckpointParticipant for TransactionManager {
    fn checkpoint(&self, storage: &Storage, _redo: Lsn) -> niwaki_storage::Result<()> {
        self.shrink_segments().map_err(into_storage)?;
        self.log_states(storage)
    }
}
