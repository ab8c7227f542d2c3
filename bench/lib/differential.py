"""The same generated statements on Niwaki and on PostgreSQL 15.

A run is a row of episodes; episode N of a seed is always the same: a schema of its own, rows, then queries, changes, definitions, transactions, settings and mistakes. Niwaki answers first. What it refuses
(0A000) is not given to PostgreSQL, so both stay alike. Each statement comes to one of these:

    same      the same columns, rows, tags, SQLSTATEs
    refused   Niwaki says by name that it has no such thing; counted by its message
    message   the same SQLSTATE, in other words
    open      PostgreSQL leaves the answer open; see below
    code      both fail, with other SQLSTATEs
    fails     Niwaki fails where PostgreSQL answers
    accepts   Niwaki answers where PostgreSQL fails
    shape     the same rows, with other names or types of columns, another tag, or another state of the transaction
    wrong     other rows, or another order where it leaves no ties
    oracle    Niwaki does not agree with itself (`oracles.py`)
    slow      no answer within the time that is given, from one of the two; the other is much faster
    crash     the connection is lost
    known     it differs for a reason that stands in differential_known.txt

What is compared, and how:
 * Rows are a multiset, unless the query has an order that leaves no ties; then also a sequence. Values are compared as text (of floats PostgreSQL's shortest) or as bytes in binary form.
 * What depends on the order of rows has an order inside (array_agg, string_agg, sums of floats), or an order over a key (LIMIT, DISTINCT ON, ROWS frames, row_number): the generator sees to it.
 * Of equal values that look different (1.0 and 1.00, -0 and 0, blanks at the end of a bpchar) PostgreSQL leaves open which one DISTINCT, GROUP BY, UNION, min and max keep. Rows that differ in nothing else are `open`.
 * Which of several expressions fails first, or whether one is computed at all that a filter could spare, is open: where a statement has more than one row or expression, a failure of class 22 (data) or
   21 (cardinality), 54 (limits), 23 (constraints; if both fail) or 0A (of PostgreSQL) of one side only, or another such failure on the other side, is `open`. Statements of one expression (`strict`) must agree, unless something in it may
   be spared (CASE, AND, a constant NULL, no rows); there are many of those.
 * Oids of users' types are each server's own.
"""

import collections
import copy
import dataclasses
import json
import pathlib
import random
import re
import time

import oracles
import regress
from generate.catalog import Catalog
from generate.changes import Changes
from generate.expressions import Expressions
from generate.queries import Queries
from generate.schema import TYPES, Schema
from generate.tree import Node, shrink, with_parameters
from generate.values import plain_value, quote
from wire import Client, Failure, Lost, Result

KINDS = ("same", "refused", "message", "open", "code", "fails", "accepts", "shape", "wrong", "oracle", "slow", "crash", "known")
# What a run must not have.
DIFFERENCES = ("code", "fails", "accepts", "shape", "wrong", "oracle", "slow", "crash")
OPEN_CODES = ("22", "21", "54", "0A")
CALL = re.compile(r"\w\(|\)::| at time zone | [-+*/%|&#^<>=~@?]+ | from ")
# What may spare the computation of something: a constant NULL under a strict function too.
LAZY = re.compile(r"\bnull\b|\bcase\b|coalesce|nullif|\b(and|or|any|all|in|between|exists)\b|\[|\)\s*(<|<=|>|>=|=|<>)\s*\(", re.I)
# What is told as a mistake in the statement, but only when a value is computed: pictures of numbers, and rows that are none.
LATE = re.compile(r'decimal point|cannot use "|must be ahead of|is incompatible with other formats|^first argument of \w+ must be a row type')
# Types of arrays in PostgreSQL's catalog.
ARRAY_OIDS = {199, 1000, 1001, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1115, 1182, 1183, 1185, 1187, 1231, 1270, 2951, 3807}
SECONDS = 20
STATEMENTS = 120
SETTINGS = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "statement_timeout": "15s", "search_path": "d"}
KNOWN = pathlib.Path(__file__).with_name("differential_known.txt")
FOCI = ("strict", "query", "change", "definition", "mistake", "oracle", "all")


@dataclasses.dataclass
class Statement:
    """`how`: text | binary (by the extended protocol) | prepared (executed several times); `strict`: nothing about it is open, but which of `several` rows fails first; `ordered`: its rows have one order."""
    node: Node
    kind: str
    how: str = "text"
    strict: bool = False
    several: bool = False
    ordered: bool = False
    values: list = ()
    # What the generator's model does when both servers did this.
    then: object = None

    def __str__(self):
        return str(self.node)


@dataclasses.dataclass
class Finding:
    kind: str
    seed: int
    episode: int
    sql: str
    ours: str
    theirs: str
    before: list = dataclasses.field(default_factory=list)


class Side:
    def __init__(self, server):
        self.server, self.client = server, None
        self.connect()

    def connect(self):
        if self.client:
            self.client.close()
        self.client = Client(self.server.port, settings=SETTINGS, timeout=SECONDS)

    def fresh(self):
        """An empty schema in front, and the session as it was at first."""
        for sql in ("rollback", "reset all", "drop schema if exists d cascade", "create schema d"):
            found = self.run(Statement(Node(sql), "begin"))
            if isinstance(found, Lost) or isinstance(found[-1], Failure):
                raise RuntimeError(f"{self.server.name}: {sql}: {found}")

    def run(self, statement):
        """What it answers; `Lost` after the server was started again."""
        try:
            if statement.how == "text":
                return self.client.query(str(statement))
            failed = self.client.prepare("", str(statement))
            if failed:
                return [failed]
            found = self.client.execute("", statement.values)
            if statement.how == "prepared":
                for _ in range(6):
                    # What follows a failure says nothing in a transaction.
                    if isinstance(found[-1], Failure):
                        return found
                    found = self.client.execute("", statement.values)
            elif statement.kind == "query" and isinstance(found[-1], Result) and all(oid < 16384 and oid not in (2249, 2287) for _, oid in found[-1].columns):
                found = self.client.execute("", statement.values, binary=True)
            return found
        except Lost as lost:
            if self.server.process.poll() is not None:
                self.server.start()
            self.connect()
            return lost


class Episode:
    """Statements in an order, each made when the one before it was answered."""

    def __init__(self, catalog, seed, number, focus):
        self.random = random.Random(f"{seed}:{number}")
        self.expressions = Expressions(self.random, catalog)
        self.schema = Schema(self.random, self.expressions)
        self.queries = Queries(self.random, self.expressions, lambda: self.schema.tables)
        self.expressions.queries = self.queries
        self.changes = Changes(self.random, self.schema, self.expressions, self.queries)
        self.focus, self.depth = focus, 0

    def statements(self):
        for sql in TYPES:
            yield Statement(Node(sql), "definition")
        queries, self.expressions.queries = self.queries, None
        for _ in range(6):
            node, table = self.schema.create_table()
            yield Statement(node, "definition", then=lambda: self.schema.tables.append(table))
            if len(self.schema.tables) == 3:
                break
        if not self.schema.tables:
            return
        for table in list(self.schema.tables):
            for _ in range(self.random.randrange(0, 3)):
                node, name = self.schema.create_index(table)
                yield Statement(node, "definition", then=lambda: table.indexes.append(name))
            for _ in range(self.random.randrange(3, 12)):
                yield Statement(self.schema.insert(table, self.random.randrange(1, 4)), "change")
        if self.random.random() < 0.5:
            yield Statement(Node("analyze"), "definition")
        self.expressions.queries = queries
        if self.random.random() < 0.6:
            node, view = self.schema.create_view(self.queries)
            yield Statement(node, "definition", then=lambda: self.schema.tables.append(view))
        for _ in range(STATEMENTS):
            yield from self.some()
        if self.depth:
            yield Statement(Node("rollback"), "transaction")
        for table in self.schema.tables:
            if not table.view:
                yield Statement(Node(f"select * from {table.name}"), "query")

    def some(self):
        chance = self.random.random
        weights = {"strict": 40, "query": 34, "change": 12, "definition": 4, "mistake": 5, "transaction": 3, "setting": 3, "oracle": 2, "cursor": 1}
        if self.focus != "all":
            weights = {**{kind: weight / 10 for kind, weight in weights.items()}, self.focus: 60}
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        how = self.random.choices(("text", "binary", "prepared"), (8, 3, 1))[0]
        if kind == "strict":
            query, several = self.queries.strict()
            yield self.parameters(Statement(query.node, "query", how, strict=True, several=several))
        elif kind == "query":
            query = self.queries.statement(chance() < 0.8)
            yield self.parameters(Statement(query.node, "query", how, ordered=query.ordered))
        elif kind == "change":
            statement = self.changes.statement()
            yield Statement(statement, "change", how if how != "prepared" else "text")
            if chance() < 0.3:
                yield Statement(Node(f"select * from {self.changes.table().name}"), "query")
        elif kind == "definition" and not self.depth:
            node, then = self.changes.definition()
            yield Statement(node, "definition", then=then)
        elif kind == "mistake":
            yield Statement(self.changes.mistaken(), "mistake")
        elif kind == "setting":
            yield Statement(self.changes.setting(), "setting")
        elif kind == "transaction":
            yield from self.transaction()
        elif kind == "cursor":
            yield from self.cursor()
        elif kind == "oracle" and (made := oracles.make(self.random, self.expressions, self.queries, self.schema)):
            yield Statement(made, "oracle")

    def parameters(self, statement):
        """Half of the statements of the extended protocol have parameters."""
        if statement.how != "text" and self.random.random() < 0.5:
            statement.values = with_parameters(statement.node, self.random)
        return statement

    def recover(self):
        """What ends a transaction that failed, or goes back in it."""
        if self.depth > 1 and self.random.random() < 0.6:
            return Statement(Node(f"rollback to s{self.depth}"), "transaction")
        self.depth = 0
        return Statement(Node("rollback"), "transaction")

    def transaction(self):
        if not self.depth:
            self.depth = 1
            yield Statement(Node(self.random.choice(("begin", "begin", "begin isolation level repeatable read"))), "transaction")
            return
        sql = self.random.choice(("savepoint", "savepoint", "rollback to", "release", "commit", "rollback"))
        if sql in ("commit", "rollback"):
            self.depth = 0
        elif sql == "savepoint":
            self.depth += 1
            sql = f"savepoint s{self.depth}"
        elif self.depth > 1:
            sql = f"{sql} s{self.random.randrange(2, self.depth + 1)}"
        else:
            return
        yield Statement(Node(sql), "transaction")

    def cursor(self):
        query = self.queries.statement(True)
        if self.depth or not query.ordered:
            return
        yield Statement(Node("begin"), "transaction")
        yield Statement(Node(f"declare cur {self.random.choice(('', 'no scroll ', 'scroll '))}cursor for ", query.node), "cursor")
        for _ in range(self.random.randrange(1, 5)):
            way = self.random.choice(("next", "3", "all", "forward 2", "0", "prior", "first", "last", "absolute 2", "relative -1", "backward 2"))
            yield Statement(Node(f"{self.random.choice(('fetch', 'fetch', 'move'))} {way} from cur"), "cursor", ordered=True)
        yield Statement(Node("rollback"), "transaction")


class Comparer:
    def __init__(self, ours, theirs, seed=1, focus="all", report=lambda finding: None):
        self.ours, self.theirs = Side(ours), Side(theirs)
        self.sides = (self.ours, self.theirs)
        self.catalog = Catalog(self.theirs.client)
        self.seed, self.focus, self.report = seed, focus, report
        self.counted, self.refusals, self.messages, self.opens = (collections.Counter() for _ in range(4))
        self.findings, self.known = [], known()

    def run(self, statements, file=None, resume=False):
        """Episodes until there were so many statements; `file` keeps where it is, so that it can be resumed."""
        number = 0
        if resume and file and file.exists():
            kept = json.loads(file.read_text())
            number, self.findings = kept["next"], [Finding(**finding) for finding in kept["findings"]]
            for name in ("counted", "refusals", "messages"):
                getattr(self, name).update(kept[name])
        while sum(self.counted.values()) < statements:
            self.run_episode(number)
            number += 1
            if file:
                kept = {"seed": self.seed, "next": number, **{name: dict(getattr(self, name).most_common()) for name in ("counted", "refusals", "messages")}}
                file.write_text(json.dumps({**kept, "findings": [dataclasses.asdict(finding) for finding in self.findings]}, indent=1))

    def summary(self):
        lines = [f"{sum(self.counted.values())} statements: " + ", ".join(f"{self.counted[kind]} {kind}" for kind in KINDS if self.counted[kind])]
        for title, counter in (("refused", self.refusals), ("messages, ours | PostgreSQL's", self.messages)):
            lines += [f"{title}:"] * bool(counter) + [f"{count:7} {text}" for text, count in counter.most_common(15)]
        return "\n".join(lines)

    def run_episode(self, number):
        """Runs one episode, up to the first difference: making that small leaves other tables behind."""
        episode = Episode(self.catalog, self.seed, number, self.focus)
        for side in self.sides:
            side.fresh()
        done = []
        for statement in self.with_recovery(episode):
            if statement.kind == "oracle":
                self.oracle(statement.node, number, done)
                continue
            kind, ours, theirs = self.both(statement)
            self.counted[kind] += 1
            if kind == "refused":
                self.refusals[re.sub(r'"[^"]*"|\d+', "…", last_failure(ours).message)] += 1
                if self.ours.client.status != b"I":
                    self.both(Statement(Node("rollback"), "transaction"))
                    episode.depth = 0
                    done.append(Statement(Node("rollback"), "transaction"))
                if statement.kind != "query":
                    # It may have drawn numbers from sequences before it was refused.
                    return
                continue
            if kind == "message":
                self.messages[f"{last_failure(ours).message}  |  {last_failure(theirs).message}"] += 1
            if kind in DIFFERENCES:
                self.found(kind, number, statement, done, ours, theirs)
                return
            if kind in ("open", "known") and (statement.kind != "query" or self.ours.client.status != self.theirs.client.status):
                return
            if statement.then and kind in ("same", "message") and not last_failure(theirs):
                statement.then()
            if statement.kind != "query" and not last_failure(theirs):
                done.append(statement)

    def with_recovery(self, episode):
        """The episode's statements; a transaction that failed on both sides is ended soon."""
        for statement in episode.statements():
            yield statement
            if self.ours.client.status == b"E":
                yield episode.recover()

    def oracle(self, oracle, number, done):
        try:
            found = oracles.check(oracle, self.ours.client)
        except Lost as lost:
            found = f"lost: {lost}"
            self.ours.run(Statement(Node("select 1"), "query"))
        self.counted["oracle" if found else "same"] += 1
        if found:
            self.findings.append(Finding("oracle", self.seed, number, str(oracle), found, "", [str(one) for one in done]))
            self.report(self.findings[-1])

    def both(self, statement, again=False):
        started = time.monotonic()
        ours = self.ours.run(statement)
        failed = not isinstance(ours, Lost) and last_failure(ours)
        if failed and failed.sqlstate == "0A000":
            return "refused", ours, None
        asked = time.monotonic()
        theirs = self.theirs.run(statement)
        ended = time.monotonic()
        kind = self.judge(ours, theirs, statement)
        if kind == "slow" and (ended - started > 3 * SECONDS or min(asked - started, ended - asked) > SECONDS / 4):
            # No server takes that long before it gives up: this machine was stopped meanwhile. Or it is much work for both.
            kind = "open"
        if kind == "slow" and statement.kind == "query" and self.ours.client.status == self.theirs.client.status == b"I" and not again:
            return self.both(statement, True)
        return kind, ours, theirs

    def judge(self, ours, theirs, statement):
        kind = self.verdict(ours, theirs, statement)
        if kind in DIFFERENCES:
            texts = [str(statement), *(regress.shown(found) for found in (ours, theirs))]
            if any(all(pattern.search(text) for pattern, text in zip(patterns, texts)) for patterns in self.known):
                return "known"
        return kind

    def verdict(self, ours, theirs, statement):
        if isinstance(ours, Lost) or isinstance(theirs, Lost):
            return "crash"
        failed, expected = last_failure(ours), last_failure(theirs)
        codes = [one.sqlstate for one in (failed, expected) if one]
        if "57014" in codes:
            return "slow" if len(set(codes)) == 2 or len(codes) == 1 else "same"
        if failed and expected and failed.sqlstate == expected.sqlstate:
            if self.ours.client.status != self.theirs.client.status:
                return "shape"
            return "same" if failed.message == expected.message or statement.kind != "mistake" and not statement.strict else "message"
        if expected and expected.sqlstate == "25P02" and not failed:
            # The two are not in the same state: of what was before, one failed where that is open.
            return "open"
        if failed or expected:
            codes = ["22000" if one.sqlstate in ("42601", "42804") and LATE.search(one.message) else one.sqlstate for one in (failed, expected) if one]
            if all(code[:2] in OPEN_CODES or len(codes) == 2 and code[:2] == "23" for code in codes) and self.is_open(statement, ours, theirs):
                return "open"
            return "code" if failed and expected else "fails" if failed else "accepts"
        if len(ours) != len(theirs):
            return "shape"
        kinds = [compare(mine, other, statement) for mine, other in zip(ours, theirs)]
        kind = max(kinds, key=KINDS.index, default="same")
        return "shape" if kind == "same" and self.ours.client.status != self.theirs.client.status else kind

    def is_open(self, statement, ours, theirs):
        """Whether a failure that depends on values may come on one side only, or as another one."""
        failed, expected = last_failure(ours), last_failure(theirs)
        if not statement.strict or LAZY.search(str(statement)) or None in statement.values:
            return True
        if failed and expected:
            # What is constant fails before a row is looked at, and of constants the inner ones first.
            return statement.several or len(CALL.findall(str(statement))) > 1
        # Where a row gives NULL, an operand that is NULL may have spared the others; with parameters also on PostgreSQL, which
        # plans for their values.
        rows = theirs[-1].rows if failed else ours[-1].rows
        return (not failed or bool(statement.values)) and (not rows or any(None in row for row in rows))

    # Making a finding small

    def found(self, kind, number, statement, done, ours, theirs):
        finding = Finding(kind, self.seed, number, str(statement), regress.shown(ours), regress.shown(theirs) if theirs is not None else "", [])
        if kind not in ("slow",):
            self.make_small(finding, statement, done, signature(ours, theirs, kind))
        self.findings.append(finding)
        self.report(finding)

    def make_small(self, finding, statement, done, expected):
        """A simpler statement, then fewer and simpler ones before it, each try in a fresh schema."""
        statement, done, state = dataclasses.replace(statement, node=copy.deepcopy(statement.node), then=None), [dataclasses.replace(one, node=copy.deepcopy(one.node), then=None) for one in done], {}

        def differs(before, last):
            for side in self.sides:
                side.fresh()
            for one in before:
                for side in self.sides:
                    if isinstance(side.run(one), Lost):
                        return False
            kind, ours, theirs = self.both(last)
            if kind != finding.kind or signature(ours, theirs, kind) != expected:
                return False
            state["ours"], state["theirs"] = regress.shown(ours), regress.shown(theirs)
            return True

        def here(text):
            kind, ours, theirs = self.both(dataclasses.replace(statement, node=Node(text)))
            return kind == finding.kind and signature(ours, theirs, kind) == expected

        if statement.how != "text":
            plainer = dataclasses.replace(statement, node=Node(without_parameters(statement)), how="text", values=())
            statement = plainer if statement.kind == "query" and here(str(plainer)) else statement
        root = Node(statement.node)
        if statement.kind == "query" and self.ours.client.status == self.theirs.client.status == b"I":
            # A query leaves nothing behind, so it is made smaller where it stands.
            shrink(root, here, 250)
        if not differs(done, dataclasses.replace(statement, node=root)):
            finding.sql, finding.before = str(root), [str(one) for one in done] + ["(not seen again in a fresh schema)"]
            return
        size = len(done)
        while size > 0:
            at = 0
            while at < len(done):
                fewer = done[:at] + done[at + size:]
                if differs(fewer, dataclasses.replace(statement, node=root)):
                    done = fewer
                else:
                    at += size
            size = min(size, len(done)) // 2
        shrink(root, lambda text: differs(done, dataclasses.replace(statement, node=Node(text))), 60)
        for at, one in enumerate(done):
            if len(str(one)) > 60:
                before = Node(one.node)
                shrink(before, lambda text: differs(done[:at] + [dataclasses.replace(one, node=Node(text))] + done[at + 1:], dataclasses.replace(statement, node=root)), 15)
                done[at] = dataclasses.replace(one, node=before)
        differs(done, dataclasses.replace(statement, node=root))
        finding.sql = f"{root}" + (f" -- {statement.how} {[*statement.values]}" if statement.how != "text" else "")
        finding.ours, finding.theirs = state["ours"], state["theirs"]
        finding.before = [str(one) for one in done]


def without_parameters(statement):
    """The tree with parameters written into it, or its text if there are any."""
    if not statement.values:
        return statement.node
    return re.sub(r"\$(\d+)::", lambda found: quote(statement.values[int(found[1]) - 1]) + "::", str(statement.node))


def signature(ours, theirs, kind):
    """What must stay while a finding is made smaller."""
    if kind in ("code", "fails", "accepts"):
        return tuple(one and (one.sqlstate, re.sub(r'"[^"]*"|\d+', "", one.message)) for one in (last_failure(ours), last_failure(theirs)))
    return None


def last_failure(found):
    return None if found is None else regress.last_failure(found)


def without_null_marks(result):
    """The same without what arrays in binary form say of NULLs in them, which PostgreSQL keeps of arrays whose NULLs are gone."""
    def plain(value, oid):
        is_array = value and len(value) >= 12 and oid in ARRAY_OIDS
        return value[:4] + value[4:8].replace(b"\x01", b"\x00") + value[8:] if is_array else value
    return dataclasses.replace(result, rows=[tuple(plain(value, oid) for value, (_, oid) in zip(row, result.columns)) for row in result.rows])


def compare(ours, theirs, statement):
    if statement.how == "binary" and ours.columns and ours.columns == theirs.columns:
        ours, theirs = without_null_marks(ours), without_null_marks(theirs)
    kind = regress.compare(ours, theirs, "order by" if statement.ordered else "")
    if kind == "ordered":
        return "same"
    if kind == "wrong" and re.search(r"distinct|group by|union|intersect|except|min\(|max\(|greatest|least|over \(| in \(|= ", str(statement)):
        plain = [dataclasses.replace(one, rows=[tuple(value and plain_value(value) for value in row) for row in one.rows]) for one in (ours, theirs)]
        if statement.how != "binary" and regress.compare(*plain, "order by" if statement.ordered else "") in ("same", "ordered"):
            return "open"
    return kind


def known():
    """Patterns for the statement, our answer and theirs, separated by ` ||| `, under a line that gives the reason."""
    if not KNOWN.exists():
        return []
    lines = [line for line in KNOWN.read_text().splitlines() if line.strip() and not line.startswith("# ")]
    return [[re.compile(part.strip(), re.S) for part in line.split("|||")] for line in lines]
