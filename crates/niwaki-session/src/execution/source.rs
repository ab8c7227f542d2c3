//! State of the running database for system views and administration functions.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, FIRST_DATABASE, Oid, Relation, RelationKind, SearchPath, SystemSource,
    of_table_number,
};
use niwaki_directory::open_database::OpenDatabase;
use niwaki_env::hash::{HashMap, HashSet};
use niwaki_nbtree::Index;
use niwaki_sql::settings::{Context, Kind, Settings, Unit};
use niwaki_storage::{BlockNumber, BlocksAhead, Fork, PageId, ReadAhead, RelFileId, Xid};
use niwaki_system::live_views::{PROGRESS, PROGRESS_VACUUM};
use niwaki_system::monitor::activity::{BackendType, State};
use niwaki_system::monitor::background_tasks::{self, TASKS};
use niwaki_system::monitor::index_counters::{self, STAT_INDEXES};
use niwaki_system::monitor::memory::{self, MEMORY};
use niwaki_system::monitor::read_ahead::{self, READ_AHEAD};
use niwaki_system::monitor::snapshots::{self, SNAPSHOTS};
use niwaki_system::monitor::statistics::{
    self, DatabaseCounters, DatabaseNumbers, FileNumbers, Reset,
};
use niwaki_system::monitor::table_counters::{self, STAT_TABLES};
use niwaki_system::names::schema_name;
use niwaki_table::Visits;
use niwaki_txn::{LockKey, TableId};
use niwaki_types::{Datum, Interval, Numeric, TimeZone, TypeOid};

use crate::directory::Directory;
use crate::execution::open_statements::OpenStatements;
use crate::session::epoch::UNIX_TO_POSTGRES_US;

type Result<T> = niwaki_catalog::Result<T>;

/// The database, as statements of one session see it.
pub(crate) struct SessionSource<'s> {
    pub directory: &'s Directory,
    /// Counters of the session's own database.
    pub(crate) statistics: &'s DatabaseCounters,
    pub(crate) session: i32,
    pub(crate) path: &'s SearchPath,
    pub(crate) settings: &'s RefCell<&'s mut Settings>,
    pub(crate) open: OpenStatements<'s>,
}

fn text(value: impl AsRef<str>) -> Datum {
    Datum::Text(value.as_ref().into())
}

fn count(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the files and forks behind a fork name of the size functions.
fn forks_of(state: &CatalogState, oid: Oid, fork: &str) -> Result<Vec<(RelFileId, Fork)>> {
    let Some(relation) = state.relation(oid) else {
        return Err(niwaki_catalog::Error::Undefined {
            kind: "relation",
            name: format!("with OID {oid}"),
        });
    };
    let file = RelFileId(relation.file);
    Ok(match fork {
        _ if relation.kind == RelationKind::View || relation.file == 0 => Vec::new(),
        "main" => vec![(file, Fork::Main)],
        "fsm" => vec![(file, Fork::FreeSpace)],
        "vm" => vec![(file, Fork::Visibility)],
        "values" => {
            let values = relation.values.map(RelFileId);
            let forks = [Fork::Main, Fork::FreeSpace];
            values.into_iter().flat_map(|file| forks.map(|fork| (file, fork))).collect()
        }
        _ => Vec::new(),
    })
}

impl SystemSource for SessionSource<'_> {
    fn relation_bytes(&self, state: &CatalogState, oid: Oid, fork: &str) -> Result<u64> {
        let pool = self.directory.engine().storage().pool();
        let mut bytes = 0;
        for (file, fork) in forks_of(state, oid, fork)? {
            bytes += u64::from(pool.blocks(file, fork)?) * niwaki_storage::page::PAGE_SIZE as u64;
        }
        Ok(bytes)
    }

    fn database_bytes(&self, database: Oid) -> Result<u64> {
        let pool = self.directory.engine().storage().pool();
        let mut bytes = 0;
        for open in self.directory.databases().all().iter().filter(|open| open.oid() == database) {
            for file in open.catalog().files() {
                for fork in [Fork::Main, Fork::FreeSpace, Fork::Visibility] {
                    let blocks = u64::from(pool.blocks(file.id, fork)?);
                    bytes += blocks * niwaki_storage::page::PAGE_SIZE as u64;
                }
            }
        }
        Ok(bytes)
    }

    fn read_in(
        &self,
        state: &CatalogState,
        oid: Oid,
        fork: &str,
        blocks: Range<u32>,
    ) -> Result<()> {
        let settings = self.settings.borrow();
        let hot = settings.hot();
        let options = ReadAhead {
            concurrency: hot.maintenance_io_concurrency,
            combine: hot.io_combine_pages,
            ..ReadAhead::default()
        };
        let pool = self.directory.engine().storage().pool();
        for (file, fork) in forks_of(state, oid, fork)? {
            let blocks = blocks.start..blocks.end.min(pool.blocks(file, fork)?);
            for block in BlocksAhead::new(pool, file, fork, options, blocks) {
                drop(pool.pin(PageId { file, fork, block: BlockNumber(block) })?);
            }
        }
        Ok(())
    }

    fn wal_insert_lsn(&self) -> u64 {
        self.directory.engine().storage().wal().insert_lsn().0
    }

    fn wal_flushed_lsn(&self) -> u64 {
        self.directory.engine().storage().wal().flushed().0
    }

    fn search_path(&self) -> Option<&SearchPath> {
        Some(self.path)
    }

    fn session_id(&self) -> i32 {
        self.session
    }

    fn cancel(&self, session: i32) -> bool {
        let found = self.directory.transactions().session(session);
        found.is_some_and(|s| {
            s.cancel();
            true
        })
    }

    fn terminate(&self, session: i32) -> bool {
        let found = self.directory.transactions().session(session);
        found.is_some_and(|s| {
            s.terminate();
            true
        })
    }

    fn is_session(&self, session: i32) -> bool {
        self.directory.transactions().session(session).is_some()
    }

    fn opened_us(&self) -> i64 {
        self.directory.opened_us() - UNIX_TO_POSTGRES_US
    }

    fn next_xid(&self) -> u64 {
        self.directory.transactions().next_xid().0
    }

    fn reset_statistics(&self, state: &CatalogState) {
        let now_us = self.directory.env().clock.now_unix_us() - UNIX_TO_POSTGRES_US;
        let mut reset = Reset { at_us: Some(now_us), ..Reset::default() };
        for relation in state.with_rows() {
            let Some(table) = &relation.table else { continue };
            reset.tables.insert(relation.oid.0, statistics::of_table(table));
            for (position, index) in table.definition().indexes.iter().enumerate() {
                let oid = of_table_number(index.id).1.0;
                reset.indexes.insert(oid, statistics::of_index(table.index(position)));
            }
        }
        for relation in state.with_rows().filter(|table| !table.is_partitioned()) {
            let indexes = relation.indexes.iter().filter_map(|entry| state.relation(entry.oid));
            for file in indexes.map(|index| index.file).chain([relation.file]) {
                reset.files.insert(file, self.file_counts(file));
            }
        }
        let databases = self.directory.databases().all();
        if let Some(own) = databases.iter().find(|open| open.oid() == state.database_oid()) {
            reset.database = self.database_numbers(own);
        }
        self.statistics.reset(reset);
    }

    fn blocking(&self, session: i32) -> Vec<i32> {
        self.directory.transactions().locks().blocking_backends(session)
    }

    fn view_rows(
        &self,
        view: &str,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        match view {
            "pg_settings" => self.settings_rows(row),
            "pg_stat_activity" => self.activity_rows(state, row),
            "pg_stat_database" => self.database_rows(state, row),
            "pg_locks" => self.lock_rows(state, row),
            "pg_stat_user_tables" => self.table_rows(state, row),
            "pg_stat_user_indexes" => self.index_rows(state, row),
            "pg_statio_user_tables" => self.table_io_rows(state, row),
            "pg_statio_user_indexes" => self.index_io_rows(state, row),
            "pg_stat_wal" => self.wal_rows(row),
            PROGRESS => self.progress_rows(state, row),
            PROGRESS_VACUUM => self.vacuum_rows(state, row),
            STAT_INDEXES => index_counter_rows(state, row),
            STAT_TABLES => table_counter_rows(state, row),
            SNAPSHOTS => {
                let directory = self.directory;
                snapshots::rows(directory.transactions(), directory.activities(), state, row)
            }
            READ_AHEAD => read_ahead::rows(self.directory.engine(), row),
            TASKS => background_tasks::rows(self.directory.engine(), row),
            MEMORY => memory::rows(row),
            "pg_stat_bgwriter" => self.writer_rows(row),
            "pg_timezone_names" => self.zone_rows(row),
            "pg_cursors" => self.open.cursor_rows(row),
            "pg_prepared_statements" => self.open.statement_rows(row),
            "pg_stat_ssl" => self.plain_rows(1, row),
            "pg_stat_gssapi" => self.plain_rows(2, row),
            _ => Ok(()),
        }
    }
}

impl SessionSource<'_> {
    fn settings_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        for (definition, setting) in self.settings.borrow().rows() {
            let (vartype, unit, min, max, words) = match definition.kind {
                Kind::Bool(_) => ("bool", None, None, None, None),
                Kind::Int { unit, min, max, .. } => {
                    ("integer", unit_word(unit), Some(min.to_string()), Some(max.to_string()), None)
                }
                Kind::Float { unit, min, max, .. } => {
                    ("real", unit_word(unit), Some(min.to_string()), Some(max.to_string()), None)
                }
                Kind::Enum(words) => ("enum", None, None, None, Some(words)),
                Kind::Text(_) => ("string", None, None, None, None),
            };
            let optional = |t: Option<String>| t.map_or(Datum::Null, text);
            let context = match definition.context {
                Context::Internal => "internal",
                Context::Server | Context::FixedAtStart => "postmaster",
                Context::FixedInFile => "sighup",
                Context::SessionStart => "backend",
                Context::User => "user",
            };
            let source = match definition.context {
                _ if setting.plain == setting.boot => "default",
                Context::Server | Context::FixedAtStart => "command line",
                _ => "session",
            };
            row(&[
                text(setting.name),
                text(&setting.plain),
                unit.map_or(Datum::Null, text),
                text("Niwaki"),
                text(setting.description),
                text(context),
                text(vartype),
                text(source),
                optional(min),
                optional(max),
                words.map_or(Datum::Null, |words| {
                    let words: Vec<Datum> = words.iter().map(text).collect();
                    Datum::array(TypeOid::TEXT, words)
                }),
                text(&setting.boot),
                text(&setting.reset),
                Datum::Bool(false),
            ])?;
        }
        Ok(())
    }

    fn activity_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        let transactions = self.directory.transactions();
        let holders = transactions.registered_snapshots();
        for session in transactions.session_infos() {
            let event = session.waiting_for.map(|(key, _)| match key {
                LockKey::Table(table) if is_database(table, state) => "object",
                LockKey::Table(_) => "relation",
                LockKey::Row(_) | LockKey::Tuple { .. } => "tuple",
                LockKey::Transaction(_) => "transactionid",
                LockKey::Advisory(_) => "advisory",
                LockKey::Notifications => "object",
            });
            // The gardener has no activity entry.
            let activity = self.directory.activities().of(session.backend);
            let backend_type = activity.as_ref().map(|activity| activity.backend_type);
            let kind = backend_type.map_or("gardener", BackendType::word);
            let only = |shown: bool, value| if shown { value } else { Datum::Null };
            let is_client = backend_type == Some(BackendType::Client);
            let database = activity.as_ref().and_then(|activity| activity.database);
            let [database, database_name] = database_of(state, database);
            let user = only(is_client, Datum::Oid(10));
            let user_name = only(is_client, text("postgres"));
            let activity = activity.unwrap_or_default();
            let works = activity.state == State::Active;
            let reads = is_client && !works;
            let wait = event.map(|event| ["Lock", event]);
            let wait = wait.or_else(|| session.sleeps.map(|why| ["Timeout", why.word()]));
            let wait = wait.or_else(|| reads.then_some(["Client", "ClientRead"]));
            let [wait_type, wait_event] =
                wait.map_or([Datum::Null, Datum::Null], |wait| wait.map(text));
            // A session that has run nothing is idle since its start. Threads without a client have
            // no state while they do nothing, as in PostgreSQL.
            let has_state = is_client || works;
            let since = activity.state_since_us.unwrap_or(session.started_us);
            let mut snapshots = holders.snapshots().iter();
            let oldest = snapshots.find(|snapshot| snapshot.session == session.backend);
            let xmin = oldest.map(|snapshot| transactions.snapshot_xmin(snapshot.csn));
            let number = |xid: Option<Xid>| xid.map_or(Datum::Null, |x| Datum::Oid(x.0 as u32));
            let address = activity.client_address.map(|address| text(address.to_string()));
            row(&[
                database,
                database_name,
                Datum::Int4(session.backend),
                user,
                user_name,
                text(&activity.application_name),
                address.unwrap_or(Datum::Null),
                activity.client_port.map_or(Datum::Null, Datum::Int4),
                time(Some(session.started_us)),
                // A failed block has no transaction any more, as in PostgreSQL.
                time(session.transaction_us.filter(|_| session.in_transaction)),
                time(session.statement_us),
                time(Some(since).filter(|_| has_state)),
                wait_type,
                wait_event,
                only(has_state, text(activity.state.word())),
                number(session.xid),
                number(xmin),
                text(&activity.query),
                text(kind),
            ])?;
        }
        Ok(())
    }

    fn lock_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        let owners = Owners::new(&self.directory.databases().all(), state);
        for lock in self.directory.transactions().locks().list() {
            let (kind, relation, tid, xid) = match lock.key {
                LockKey::Table(table) if is_database(table, state) => ("object", None, None, None),
                LockKey::Table(table) => ("relation", Some(of_table_number(table).1.0), None, None),
                LockKey::Row(key) => ("tuple", None, Some(key.root), None),
                LockKey::Tuple { tid, .. } => ("tuple", None, Some(tid), None),
                LockKey::Transaction(xid) => ("transactionid", None, None, Some(xid)),
                LockKey::Advisory(_) => ("advisory", None, None, None),
                LockKey::Notifications => ("object", None, None, None),
            };
            let number = match lock.key {
                LockKey::Advisory(key) => Some(key),
                _ => None,
            };
            row(&[
                text(kind),
                owners.of(&lock.key).map_or(Datum::Null, |oid| Datum::Oid(oid.0)),
                relation.map_or(Datum::Null, Datum::Oid),
                tid.map_or(Datum::Null, |tid| Datum::Int4(tid.block.0 as i32)),
                tid.map_or(Datum::Null, |tid| Datum::Int2(tid.offset.0 as i16)),
                xid.map_or(Datum::Null, |xid| Datum::Oid(xid.0 as u32)),
                number.map_or(Datum::Null, |key| Datum::Oid(key.class)),
                number.map_or(Datum::Null, |key| Datum::Oid(key.object)),
                number.map_or(Datum::Null, |key| Datum::Int2(key.parts.cast_signed())),
                Datum::Int4(lock.backend),
                text(lock.mode),
                Datum::Bool(lock.granted),
                Datum::Bool(lock.fast_path),
            ])?;
        }
        Ok(())
    }

    fn table_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for relation in state.with_rows() {
            let Some(table) = &relation.table else { continue };
            let numbers = statistics::of_table(table);
            let numbers = self.statistics.shown_of_table(relation.oid.0, numbers);
            let [seq_scans, seq_rows, index_scans, index_rows, ..] = numbers;
            let [.., inserted, updated, heap_only, deleted] = numbers;
            let maintained = table.maintenance_stats();
            let live = relation.stats.tuples.max(0.0) + maintained.rows_more as f64;
            let last = |visits: Visits| {
                visits
                    .last_us
                    .map_or(Datum::Null, |us| Datum::TimestampTz(us - UNIX_TO_POSTGRES_US))
            };
            let [oid, schema, name] = names(state, relation);
            row(&[
                oid,
                schema,
                name,
                count(seq_scans),
                count(seq_rows),
                count(index_scans),
                count(index_rows),
                count(inserted),
                count(updated),
                count(deleted),
                count(heap_only),
                count(live.round().max(0.0) as u64),
                count(maintained.dead),
                count(maintained.modified),
                count(maintained.inserted),
                last(maintained.vacuum),
                last(maintained.autovacuum),
                last(maintained.analyze),
                last(maintained.autoanalyze),
                count(maintained.vacuum.count),
                count(maintained.autovacuum.count),
                count(maintained.analyze.count),
                count(maintained.autoanalyze.count),
            ])?;
        }
        Ok(())
    }

    fn index_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for_each_index(state, &mut |names, index, _| {
            let [oid, own, schema, table, name] = names;
            let mut numbers = statistics::of_index(index);
            if let Datum::Oid(own) = own {
                numbers = self.statistics.shown_of_index(own, numbers);
            }
            let [scans, entries] = numbers;
            row(&[oid, own, schema, table, name, count(scans), count(entries)])
        })
    }

    /// Returns reads and hits of a file since the database was opened.
    fn file_counts(&self, file: u64) -> FileNumbers {
        let stats =
            self.directory.engine().storage().pool().statistics_of(RelFileId(file), Fork::Main);
        [stats.reads, stats.hits]
    }

    /// Returns reads and hits of a file since the last reset.
    fn file_io(&self, file: u64) -> (u64, u64) {
        let [read, hit] = self.statistics.shown_of_file(file, self.file_counts(file));
        (read, hit)
    }

    /// Returns the counts of a database, its tables and its files since it was opened.
    fn database_numbers(&self, open: &OpenDatabase) -> DatabaseNumbers {
        let own = open.catalog().own_table().definition().id;
        let rows = self.directory.engine().rows_counted(|table| {
            table != own && of_table_number(table).0 == open.catalog().database_oid()
        });
        let files: HashSet<RelFileId> =
            open.catalog().files().into_iter().map(|file| file.id).collect();
        let pool = self.directory.engine().storage().pool();
        let blocks = pool.statistics_of_files(|file| files.contains(&file));
        open.statistics().numbers([blocks.reads, blocks.hits], rows)
    }

    /// Gives a row for the objects that belong to no database, then a row for each database.
    fn database_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        let mut sessions: HashMap<u32, i32> = HashMap::default();
        for session in self.directory.transactions().session_infos() {
            let activity = self.directory.activities().of(session.backend);
            if let Some(database) = activity.and_then(|activity| activity.database) {
                *sessions.entry(database.0).or_default() += 1;
            }
        }
        let shared = [Datum::Oid(0), Datum::Null];
        row(&database_row(shared, 0, DatabaseNumbers::default(), None))?;
        for open in self.directory.databases().all() {
            let names = database_of(state, Some(open.oid()));
            if matches!(names, [Datum::Null, _]) {
                continue;
            }
            let numbers = open.statistics().shown(self.database_numbers(&open));
            let connected = sessions.get(&open.oid().0).copied().unwrap_or(0);
            row(&database_row(names, connected, numbers, open.statistics().reset_at_us()))?;
        }
        Ok(())
    }

    fn table_io_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for relation in state.with_rows().filter(|table| !table.is_partitioned()) {
            let (read, hit) = self.file_io(relation.file);
            let mut index = (0, 0);
            for entry in &relation.indexes {
                if let Some(own) = state.relation(entry.oid) {
                    let (read, hit) = self.file_io(own.file);
                    index = (index.0 + read, index.1 + hit);
                }
            }
            let [oid, schema, name] = names(state, relation);
            row(&[oid, schema, name, count(read), count(hit), count(index.0), count(index.1)])?;
        }
        Ok(())
    }

    fn index_io_rows(
        &self,
        state: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for relation in state.with_rows().filter(|table| !table.is_partitioned()) {
            for entry in &relation.indexes {
                let Some(own) = state.relation(entry.oid) else { continue };
                let (read, hit) = self.file_io(own.file);
                let [oid, schema, name] = names(state, relation);
                let index = Datum::Oid(entry.oid.0);
                row(&[oid, index, schema, name, text(&entry.name), count(read), count(hit)])?;
            }
        }
        Ok(())
    }

    fn progress_rows(
        &self,
        catalog: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for (build, progress) in self.directory.builds().all() {
            let Some((table, index)) = build.relations else { continue };
            let state = progress.state();
            let [database, database_name] = database_of(catalog, Some(build.database));
            row(&[
                Datum::Int4(build.backend),
                database,
                database_name,
                Datum::Oid(table.0),
                Datum::Oid(index.0),
                text(build.command),
                text(state.phase.words()),
                count(state.lockers_total),
                count(state.lockers_done),
                count(state.locker),
                count(state.blocks_total),
                count(state.blocks_done),
                count(state.tuples_total),
                count(state.tuples_done),
                count(0),
                count(0),
            ])?;
        }
        Ok(())
    }

    fn vacuum_rows(
        &self,
        catalog: &CatalogState,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for (vacuum, progress) in self.directory.vacuums().all() {
            let state = progress.state();
            let [database, database_name] = database_of(catalog, Some(vacuum.database));
            row(&[
                Datum::Int4(vacuum.backend),
                database,
                database_name,
                Datum::Oid(vacuum.table.0),
                text(state.phase.words()),
                count(state.blocks_total),
                count(state.blocks_scanned),
                count(state.blocks_vacuumed),
                count(state.index_passes),
                count(state.roots_max()),
                count(state.roots),
                count(state.roots_bytes_max),
                count(state.roots_bytes),
                count(state.roots),
                count(state.indexes_total),
                count(state.indexes_processed),
            ])?;
        }
        Ok(())
    }

    fn wal_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        let stats = self.directory.engine().storage().wal().statistics();
        let bytes = Numeric::from(i64::try_from(stats.bytes).unwrap_or(i64::MAX));
        row(&[
            count(stats.records),
            count(stats.images),
            Datum::Numeric(Arc::new(bytes)),
            count(stats.writes),
            count(stats.syncs),
        ])
    }

    /// Gives a row for each client: its number, then `answers` times false, because no connection
    /// is encrypted or authenticated.
    fn plain_rows(
        &self,
        answers: usize,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        for session in self.directory.transactions().session_infos() {
            let activity = self.directory.activities().of(session.backend);
            if activity.is_some_and(|activity| activity.backend_type == BackendType::Client) {
                let mut values = vec![Datum::Int4(session.backend)];
                values.extend(std::iter::repeat_n(Datum::Bool(false), answers));
                row(&values)?;
            }
        }
        Ok(())
    }

    fn zone_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        let now = self.directory.env().clock.now_unix_us().saturating_sub(UNIX_TO_POSTGRES_US);
        for name in TimeZone::names() {
            let Ok(zone) = TimeZone::get(&name) else { continue };
            let offset = i64::from(zone.offset_at(now)) * 1_000_000;
            row(&[
                text(&name),
                text(zone.abbreviation_at(now)),
                Datum::Interval(Arc::new(Interval::new(0, 0, offset))),
                Datum::Bool(zone.is_summer_at(now)),
            ])?;
        }
        Ok(())
    }

    fn writer_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        let stats = self.directory.engine().storage().write_statistics();
        let milliseconds = |us: u64| Datum::Float8(us as f64 / 1000.0);
        row(&[
            count(stats.checkpoints_timed),
            count(stats.checkpoints_requested),
            milliseconds(stats.checkpoint_write_us),
            milliseconds(stats.checkpoint_sync_us),
            count(stats.by_checkpoints),
            count(stats.by_background),
            count(stats.background_stopped),
            count(stats.by_sessions),
            count(stats.synced_to_close),
            count(stats.frames_allocated),
            // Statistics count since the database was opened. There is no reset.
            Datum::Null,
        ])
    }
}

/// Returns a row of `pg_stat_database`, in the column order of the view's definition.
fn database_row(
    [oid, name]: [Datum; 2],
    sessions: i32,
    numbers: DatabaseNumbers,
    reset_at_us: Option<i64>,
) -> Vec<Datum> {
    let mut row = vec![oid, name, Datum::Int4(sessions)];
    row.extend(numbers.map(count));
    // Numbers that Niwaki does not count: conflicts with recovery, times, sessions that were lost
    // or failed.
    row.push(count(0));
    row.extend(std::iter::repeat_n(Datum::Float8(0.0), 5));
    row.extend([count(0), count(0)]);
    row.push(reset_at_us.map_or(Datum::Null, Datum::TimestampTz));
    row
}

/// Callback for one index: the leading columns of its statistics, its handle, and whether it is
/// valid.
type VisitIndex<'v> = dyn FnMut([Datum; 5], &Index, bool) -> Result<()> + 'v;

/// Visits the indexes of all tables with the leading columns of their statistics. These are the
/// numbers of the table and of the index, the schema, and the names of both.
fn for_each_index(state: &CatalogState, visit: &mut VisitIndex<'_>) -> Result<()> {
    for relation in state.with_rows() {
        let Some(table) = &relation.table else { continue };
        for (position, index) in table.definition().indexes.iter().enumerate() {
            let [oid, schema, name] = names(state, relation);
            let own = Datum::Oid(of_table_number(index.id).1.0);
            let names = [oid, own, schema, name, text(&index.name)];
            visit(names, table.index(position), index.valid)?;
        }
    }
    Ok(())
}

fn index_counter_rows(
    state: &CatalogState,
    row: &mut dyn FnMut(&[Datum]) -> Result<()>,
) -> Result<()> {
    for_each_index(state, &mut |names, index, valid| row(&index_counters::row(names, index, valid)))
}

fn table_counter_rows(
    state: &CatalogState,
    row: &mut dyn FnMut(&[Datum]) -> Result<()>,
) -> Result<()> {
    for relation in state.with_rows() {
        let Some(table) = &relation.table else { continue };
        row(&table_counters::row(names(state, relation), table))?;
    }
    Ok(())
}

/// Returns number and name of a database.
fn database_of(state: &CatalogState, oid: Option<Oid>) -> [Datum; 2] {
    let databases = state.databases();
    match oid.and_then(|oid| databases.get(oid)) {
        Some(database) => [Datum::Oid(database.oid.0), text(&database.name)],
        None => [Datum::Null, Datum::Null],
    }
}

/// Returns a timestamp, given in microseconds since 1970.
fn time(us: Option<i64>) -> Datum {
    us.map_or(Datum::Null, |us| Datum::TimestampTz(us - UNIX_TO_POSTGRES_US))
}

/// Map from locks to the databases they belong to.
struct Owners<'s> {
    /// Catalog of the session that reads the view.
    asking: &'s CatalogState,
    files: HashMap<RelFileId, Oid>,
}

impl<'s> Owners<'s> {
    fn new(databases: &[Arc<OpenDatabase>], asking: &'s CatalogState) -> Self {
        let mut files = HashMap::default();
        for open in databases {
            let of_this = open.catalog().files().into_iter();
            files.extend(of_this.map(|file| (file.id, open.oid())));
        }
        Self { asking, files }
    }

    /// Returns the database of a lock. `None` for a lock that belongs to no database.
    fn of(&self, key: &LockKey) -> Option<Oid> {
        // A file in no catalog belongs to one session alone, or was just made.
        let of_file = |file: &RelFileId| self.files.get(file).copied();
        match key {
            LockKey::Table(table) if is_database(*table, self.asking) => None,
            LockKey::Table(table) => Some(of_table_number(*table).0),
            LockKey::Row(key) => of_file(&key.file),
            LockKey::Tuple { file, .. } => of_file(file),
            LockKey::Advisory(key) => Some(Oid(key.database)),
            LockKey::Transaction(_) | LockKey::Notifications => None,
        }
    }
}

/// Returns whether a lock is on a database. `asking`: the catalog of the session that reads the
/// view.
fn is_database(table: TableId, asking: &CatalogState) -> bool {
    let (database, oid) = of_table_number(table);
    database == FIRST_DATABASE && asking.databases().get(oid).is_some()
}

/// Returns number, schema and name of a table, the leading columns of its statistics.
fn names(state: &CatalogState, relation: &Relation) -> [Datum; 3] {
    let schema = schema_name(state, relation.schema);
    [Datum::Oid(relation.oid.0), text(schema), text(&relation.name)]
}

fn unit_word(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::None => None,
        Unit::Blocks => Some("8kB"),
        Unit::Bytes => Some("B"),
        Unit::Kilobytes => Some("kB"),
        Unit::Megabytes => Some("MB"),
        Unit::Milliseconds => Some("ms"),
        Unit::Seconds => Some("s"),
        Unit::Minutes => Some("min"),
    }
}
