"""Schedules: statements of two and three sessions, one after the other, on PostgreSQL 15 and on Niwaki, compared step by step.

A schedule is drawn from a seed and its number. One session changes or locks rows and keeps its transaction open, others run
statements of all shapes on the same rows, and the first one ends. Whether a statement waits is asked of the server
(`pg_blocking_pids`), so no step depends on time. Compared is, for each step: that it waits, or its rows, its tag, or its
SQLSTATE and message; and in the end what the tables hold, through each index.

What is left open, and differs now and then: in which order a statement visits rows, so which of them it locks or refuses
first (join methods, order of a hash table); whether a WITH query has been read to its end when its reader waits; which
of two sessions that wait for one transaction goes on first. What differs with a reason: a query below NOT EXISTS is asked again
for a newer version (PostgreSQL takes it that no row matches); a row that is updated in its chain keeps its ctid; an update that
takes a row to a new root is waited for by FOR KEY SHARE.

Two that wait for each other are not left to the servers, which may choose differently: when nobody can go on, the
statement that began last is cancelled on both.
"""

import random
import select
import time

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

SETUP = """
drop table if exists t, u, p, arch cascade;
create table t (id int primary key, k int unique, v int, n int not null default 0, s text);
create index t_v on t (v);
create index t_part on t (n) where v < 100;
create table u (id int primary key, tid int references t on update cascade on delete cascade, w int);
create index u_w on u (w);
create table p (id int, v int, n int not null default 0, s text) partition by list (id);
create table p1 partition of p for values in (1, 2);
create table p2 partition of p for values in (3, 4, 5);
create index p_v on p (v);
create table arch (id int, v int, n int);
create or replace function lock_t(wanted int) returns int language sql volatile as 'select v from t where id = wanted for update';
create or replace function count_t() returns trigger language plpgsql as 'begin new.n := new.n + 100; return new; end';
create or replace function keep_t() returns trigger language plpgsql as 'begin return null; end';
"""
FILL = """
truncate t, u, p, arch;
insert into t select i, i * 10, i * 10, 0, 'new' from generate_series(1, 4) i;
insert into u select i, i, i * 10 from generate_series(1, 4) i;
insert into p select i, i * 10, 0, 'new' from generate_series(1, 5) i;
"""
# What a schedule begins with besides; it ends with the other half.
EXTRAS = [(None, None)] * 6 + [
    ("create trigger c before update on t for each row execute function count_t()", "drop trigger c on t"),
    ("create trigger c before update on t for each row when (old.v > 40) execute function keep_t()", "drop trigger c on t"),
    ("create trigger c before update on p for each row execute function count_t()", "drop trigger c on p"),
]
# Ways to read and to join that must not matter.
PATHS = [
    "",
    "set enable_seqscan = off; set enable_bitmapscan = off",
    "set enable_seqscan = off; set enable_indexscan = off; set enable_indexonlyscan = off",
    "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off",
    "set enable_nestloop = off; set enable_mergejoin = off",
    "set enable_nestloop = off; set enable_hashjoin = off",
    "set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off",
]
LOCKS = ["for update", "for no key update", "for share", "for key share"]
WAITS = ["", "", "", " skip locked", " nowait"]

# What the first session does to row {i}; {x} is a new value.
HOLDERS = [
    "update t set v = {x} where id = {i}", "update t set v = {x}, n = n + 1 where id = {i}", "update t set k = {x} where id = {i}",
    "update t set n = n + 1", "update t set s = repeat('x', 3000) where id = {i}", "update t set id = id + 10 where id = {i}",
    "delete from t where id = {i}", "delete from t where id = {i}; insert into t values ({i}, {i}0, {x}, 0, 'again')",
    "update t set s = 'done' where id = {i}", "update t set s = 'done', v = {x} where id = {i}",
    "update u set w = {x} where id = {i}", "update u set tid = {j} where id = {i}", "delete from u where id = {i}",
    "update p set v = {x}, n = n + 1 where id = {i}", "update p set id = id + 2 where id = {i}", "delete from p where id = {i}",
    "insert into t values (7, 70, {x}, 0, 'seven')", "update t set k = k + 1; update t set k = k - 1, n = n + 1",
    "select * from t where id = {i} {lock}", "select * from p where id = {i} {lock}", "insert into u values (9, {i}, 9)",
]
# What the others run.
SHAPES = [
    "update t set n = n + 1 where id = {i} returning *",
    "update t set n = n + 1, k = k + 1000 where id = {i} returning *",
    "update t set v = v + 1 where v < 40 returning *",
    "update t set v = v + 1 where v = {i}0 returning *",
    "update t set n = n + v where id in ({i}, {j}) and s = 'new' returning *",
    "delete from t where id = {i} returning *",
    "delete from t where v between 5 and 35 returning id, v",
    "update t set n = n + 1 where id = (select id from t where s = 'new' order by id limit 1 {lock}{wait}) returning *",
    "update t set n = n + 1 where id = (select id from t where v < 40 order by v, id limit 1 offset 1 {lock}{wait}) returning *",
    "update t set n = n + 1, s = 'taken' where id in (select id from t where s = 'new' order by id limit 2 {lock}{wait}) returning *",
    "update t set n = n + 1 where id = any (array(select id from t where s = 'new' order by id limit 2 {lock}{wait})) returning *",
    "with c as (select id from t where s = 'new' order by id limit 2 {lock}{wait}) "
    "update t set s = 'taken', n = n + 1 from c where t.id = c.id returning t.*",
    "with c as (select id, v from t where id = {i} {lock}) update t set n = n + c.v from c where t.id = c.id and t.s = 'new' returning t.*, c.v",
    "update t set n = t.n + 1 from (select id from t where s = 'new' order by id limit 1 {lock}{wait}) q where q.id = t.id returning t.*",
    "with c as (select id from t where id = {i} {lock}), d as (delete from t using c where t.id = c.id returning t.*) "
    "insert into arch select id, v, n from d returning *",
    "delete from t where id in (select id from t where s = 'new' order by id limit 2 {lock}{wait}) returning *",
    "delete from t using u where u.id = t.id and u.w < 40 and t.v < 40 returning t.*, u.w",
    "update t set n = t.n + u.w from u where u.tid = t.id and t.v <= u.w returning t.*, u.w",
    "update t set n = t.n + 1, s = t.s || 'x' from (values ({i}, 25, 'a'), ({i}, 60, 'b'), ({j}, 99, 'c')) q(id, l, x) "
    "where t.id = q.id and t.v < q.l",
    "update t set n = n + 1 from t o where o.id = t.id and o.v = t.v returning t.*",
    "update t set n = n + 1 where exists (select from u where u.w = t.v) returning *",
    "update t set n = n + 1 where v in (select w from u) returning *",
    "update t set n = n + (select w from u where u.id = t.id) where (select count(*) from u where u.w = t.v) > 0 returning *",
    "update t set n = n + (select max(v) from t) where id = {i} returning *",
    "update t set n = n + 1 from u left join arch on arch.id = u.id where u.id = t.id and u.w = t.v returning t.*, arch.v",
    "merge into t using (values ({i}, 25), (8, 1)) q(id, l) on t.id = q.id when matched and t.v < q.l then update set n = t.n + 1 "
    "when matched then update set s = 'other' when not matched then insert values (q.id, q.id * 10, q.l, 0, 'merged')",
    "merge into t using u on t.id = u.tid and t.v = u.w when matched and t.s = 'new' then update set n = t.n + u.w when matched then delete",
    "merge into t using u on t.id = u.tid when matched and t.v > 40 then delete when matched then do nothing",
    "merge into t using (select id from t where id = {i} {lock}) q on t.id = q.id when matched then update set n = t.n + t.v",
    "merge into p using (values ({i})) q(id) on p.id = q.id when matched then update set n = p.n + p.v",
    "insert into t values ({i}, {i}0, 1, 1, 'up') on conflict (id) do update set n = t.n + excluded.n, v = t.v where t.v < 50 returning *",
    "insert into t values ({i}, {i}0, 1, 1, 'up') on conflict (k) do update set n = t.n + 1 returning *",
    "insert into t values ({i}, {i}0, 1, 1, 'up') on conflict do nothing returning *",
    "insert into t values (7, 71, 1, 0, 'seven') on conflict (id) do update set n = t.n + 1 returning *",
    "with c as (update t set n = n + 1 where id = {i} and v < 50 returning id) update t set s = 'y' where id = {i} returning *",
    "with c as (delete from t where id = {i} and v < 50 returning *) insert into arch select id, v, n from c returning *",
    "select * from t where id = {i} {lock}{wait}",
    "select * from t where v < 40 order by v {lock}{wait}",
    "select id from t where s = 'new' order by id limit 2 {lock}{wait}",
    "select t.*, u.w from t join u on u.tid = t.id where t.v = u.w {lock} of t{wait}",
    "select t.*, u.w from t join u on u.tid = t.id where t.v <= u.w {lock}{wait}",
    "select t.*, u.w from t left join u on u.w = t.v {lock} of t{wait}",
    "select x.v, y.v from t x join t y on x.v = y.v where x.id = {i} {lock}{wait}",
    "select x.v, y.v from t x join t y on x.id = y.id where x.id = {i} for update of x",
    "select t.*, x from t, (values ({i}, 25, 'a'), ({i}, 60, 'b'), ({i}, 99, 'c')) q(id, l, x) where t.id = q.id and t.v < q.l {lock} of t{wait}",
    "select * from (select id, v from t where v < 40) q where q.v > 5 {lock}{wait}",
    "insert into arch select id, v, n from t where id = {i} {lock}",
    "update t set s = 'f' || lock_t({i}) where id = {i} returning *",
    "update t set s = 'f' || lock_t({j}) where id = {i} returning *",
    "update p set n = n + 1 where id = {i} returning *",
    "update p set n = n + v where v < 40 returning *",
    "update p set id = 3, n = n + 1 where id = {i} and v < 50 returning *",
    "delete from p where v < 35 returning id, v, n",
    "with c as (select id from p where s = 'new' order by id limit 2 {lock}{wait}) update p set s = 'taken', n = n + 1 from c "
    "where p.id = c.id returning p.*",
    "select * from p where v < 40 order by id {lock}{wait}",
    "insert into u values (8, {i}, 8) returning *",
    "update u set tid = {j} where id = {i} returning *",
    "update t set id = id + 20 where id = {i} returning *",
]
# What a session also does in its transaction.
OTHERS = ["savepoint s", "rollback to s", "release s"]
LOCKING = [
    "select * from t where id = {i} {lock}{wait}", "update t set n = n + 1 where id = {i}", "update t set k = {x} where id = {i}",
    "update t set s = repeat('y', 3000) where id = {i}", "insert into u values ({x}, {i}, 9)", "delete from t where id = {i}",
    "select t.id from t join u on u.tid = t.id where t.id = {i} {lock} of t{wait}", "select v, n from t where id = {i}",
]
FINAL = [
    "select * from t order by id", "select * from u order by id", "select * from p order by id, v", "select * from arch order by id, v, n",
    "set enable_seqscan = off; set enable_bitmapscan = off", "select id, v from t where v > 0 order by v, id",
    "select k from t where k > 0 order by k", "select id, n from t where n >= 0 and v < 100 order by n, id", "reset all",
]
FOCI = ["all", "shapes", "locks"]


def draw(seed, number, focus="all"):
    """The schedule of a number: what comes before, what comes after, and its steps, each a session and a statement."""
    rng = random.Random(f"{seed}/{number}")

    def fill(template):
        i, j = rng.sample([1, 2, 3, 4], 2)
        return template.format(i=i, j=j, x=rng.choice([5, 15, 35, 45, 55, 75, 150]), lock=rng.choice(LOCKS), wait=rng.choice(WAITS))

    def begin():
        return "begin isolation level repeatable read" if rng.random() < 0.15 else "begin"

    if focus == "locks" or (focus == "all" and rng.random() < 0.3):
        names, steps, opened = "abc"[:rng.choice([2, 3])], [], set()
        for _ in range(rng.randint(6, 12)):
            name = rng.choice(names)
            if name not in opened:
                steps.append((name, begin()))
                opened.add(name)
            roll = rng.random()
            if roll < 0.2:
                steps.append((name, rng.choice(OTHERS)))
            elif roll < 0.35:
                steps.append((name, rng.choice(["commit", "rollback"])))
                opened.discard(name)
            else:
                steps.append((name, fill(rng.choice(LOCKING)).replace("{i}", "1")))
        return (None, None), steps
    before = rng.choice(EXTRAS)
    steps = [("a", "begin")]
    if rng.random() < 0.15:
        steps += [("a", fill(rng.choice(HOLDERS))), ("a", "savepoint s"), ("a", fill(rng.choice(HOLDERS))), ("a", "rollback to s")]
    else:
        steps += [("a", fill(rng.choice(HOLDERS))) for _ in range(rng.choice([1, 1, 1, 2]))]
    others = "bc"[:rng.choice([1, 1, 2])]
    for name in others:
        if path := rng.choice(PATHS):
            steps.append((name, path))
        if rng.random() < 0.5:
            steps.append((name, begin()))
            if rng.random() < 0.3:
                steps.append((name, fill(rng.choice(SHAPES))))
        steps.append((name, fill(rng.choice(SHAPES))))
    steps.append(("a", rng.choice(["commit", "commit", "commit", "rollback"])))
    steps += [(name, fill(rng.choice(SHAPES))) for name in others if rng.random() < 0.3]
    return before, steps


class Stuck(Exception):
    """A statement neither ends nor waits for a session that could end."""


class Session:
    def __init__(self, server):
        self.connection = psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres", autocommit=True)
        self.raw = self.connection.pgconn
        self.pid = self.raw.backend_pid
        self.running = None

    def start(self, sql, number):
        self.raw.send_query(sql.encode())
        self.running = (number, sql)
        self.results = []
        self.seen_waiting = 0

    def finished(self):
        """Whether the statement has ended; takes what has come."""
        self.raw.consume_input()
        while not self.raw.is_busy():
            result = self.raw.get_result()
            if result is None:
                return True
            self.results.append(shown(result))
        return False

    def outcome(self):
        number, sql = self.running
        self.running = None
        return number, sql, self.results

    @property
    def in_transaction(self):
        return self.raw.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def run(self, sql):
        self.start(sql, None)
        while not self.finished():
            select.select([self.raw.socket], [], [], 10)
        return self.outcome()[2]


def shown(result):
    if result.status == ExecStatus.TUPLES_OK:
        cell = lambda row, column: (lambda value: None if value is None else value.decode())(result.get_value(row, column))
        return sorted(([cell(row, column) for column in range(result.nfields)] for row in range(result.ntuples)), key=str)
    if result.status == ExecStatus.FATAL_ERROR:
        field = lambda code: (result.error_field(code) or b"").decode()
        return [field(psycopg.pq.DiagnosticField.SQLSTATE), field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)]
    return (result.command_status or b"").decode()


class Player:
    """Plays schedules on one server."""

    def __init__(self, server):
        self.server = server
        self.monitor = Session(server)
        self.monitor.run("set client_min_messages = error")
        for statement in SETUP.strip().split(";\n"):
            self.expect(statement)
        self.sessions = {}

    def expect(self, sql):
        results = self.monitor.run(sql)
        if any(isinstance(result, list) and len(result) == 2 and isinstance(result[0], str) for result in results):
            raise RuntimeError(f"{self.server.name}: {sql}: {results}")
        return results

    def session(self, name):
        if name not in self.sessions:
            self.sessions[name] = Session(self.server)
            # Who waits for whom in a circle is decided here.
            self.sessions[name].run("set deadlock_timeout = '1h'; set client_min_messages = error")
        return self.sessions[name]

    def blocked_by(self, session):
        rows = self.monitor.run(f"select pg_blocking_pids({session.pid})::text")[0]
        return [int(pid) for pid in rows[0][0].strip("{}").split(",") if pid]

    def is_waiting(self, session):
        """Whether it waits for a session that will not end by itself."""
        blockers = self.blocked_by(session)
        if blockers:
            # A session that has ended its transaction is in nobody's way any more.
            return any(other.in_transaction or other.running for other in self.sessions.values() if other.pid in blockers)
        asked = f"select wait_event_type from pg_stat_activity where pid = {session.pid}"
        session.seen_waiting = session.seen_waiting + 1 if self.monitor.run(asked)[0] == [["Lock"]] else 0
        return session.seen_waiting > 20

    def settle(self, log):
        """Until each statement has ended or waits for a session that will not end by itself."""
        deadline = time.monotonic() + 20
        done, waiting = [], []
        while True:
            waiting, moving = [], False
            for session in self.sessions.values():
                if session.running is None:
                    continue
                if session.finished():
                    done.append(session.outcome())
                    moving = True
                    continue
                if self.is_waiting(session):
                    waiting.append(session)
                else:
                    moving = True
                    select.select([session.raw.socket], [], [], 0.005)
            if not moving:
                break
            if time.monotonic() > deadline:
                stuck = [(s.running, self.blocked_by(s), s.pid, s.in_transaction) for s in self.sessions.values()]
                raise Stuck(f"{self.server.name}: nothing moves: {stuck}")
        log += sorted(done, key=str)
        log += [(*session.running, "waits") for session in waiting]
        return waiting

    def play(self, before, steps):
        log = []
        self.expect(FILL)
        if before[0]:
            self.expect(before[0])
        steps = list(enumerate(steps))
        # A session that waits does what is left for it afterwards.
        while steps:
            place = next((at for at, (_, (name, _)) in enumerate(steps) if self.session(name).running is None), None)
            if place is None:
                self.resolve(log)
                continue
            number, (name, sql) = steps.pop(place)
            session = self.session(name)
            session.start(sql, number)
            self.settle(log)
        # Those that do not wait end first.
        while any(session.running or session.in_transaction for session in self.sessions.values()):
            ready = [s for s in self.sessions.values() if s.running is None and s.in_transaction]
            if ready:
                ready[0].start("commit", "end")
                self.settle(log)
            else:
                self.resolve(log)
        if before[1]:
            self.expect(before[1])
        for sql in FINAL:
            log.append(("final", sql, self.monitor.run(sql)))
        for session in self.sessions.values():
            session.run("reset all; set deadlock_timeout = '1h'; set client_min_messages = error")
        return log

    def resolve(self, log):
        """Nobody can go on: the statement that began last is cancelled."""
        waiting = [session for session in self.sessions.values() if session.running]
        last = max(waiting, key=lambda session: str(session.running[0]).zfill(4))
        last.connection.cancel()
        while not last.finished():
            select.select([last.raw.socket], [], [], 10)
        log.append(last.outcome())
        self.settle(log)


def differences(ours, theirs):
    """Pairs of entries that differ, each with the other's."""
    length = max(len(ours), len(theirs))
    padded = [log + [None] * (length - len(log)) for log in (ours, theirs)]
    return [(mine, other) for mine, other in zip(*padded) if mine != other]
