"""What Niwaki must agree with itself on, PostgreSQL aside.

    where, distinct, aggregate, having   ternary logic partitioning (SQLancer's TLP): the rows of a query are those where a condition holds, those where it does not, and those where it is NULL
    norec         a condition in WHERE keeps as many rows as it is true for in the target list of the unfiltered query, behind a fence that keeps it from being pushed down
    switches      the same query under other plans: enable_* off, work_mem of 64 kB
    indexes       the same query with every index of its tables dropped, in a transaction that is rolled back
    prepared      the same query prepared and executed six times, with generic plans
"""

import collections
import dataclasses

from generate.changes import SWITCHES
from generate.expressions import Scope
from generate.tree import Node
from generate.values import LOOSE, UNORDERED, plain_value
from wire import Failure

NAMES = ("where", "distinct", "aggregate", "having", "norec", "switches", "indexes", "prepared")


@dataclasses.dataclass
class Oracle:
    """The condition stands for itself in `query`, which is asked for each of the ways."""
    name: str
    query: Node
    condition: Node | None = None
    detail: object = None

    def __str__(self):
        return f"{self.query} -- {self.name}: {self.condition or self.detail or ''}"


def make(random, expressions, queries, schema):
    name = random.choice(NAMES)
    queries.aliases, queries.ctes = 0, []
    if name in ("switches", "indexes", "prepared"):
        query = queries.statement(True)
        detail = random.sample(SWITCHES, random.randrange(1, 5)) if name == "switches" else [index for table in schema.tables for index in table.indexes]
        return Oracle(name, query.node, None, detail)
    source, scope = queries.from_clause(None, 1)
    condition = expressions.expr("bool", scope, 3, True)
    columns = [(text, type) for text, type in scope.typed() if name == "where" or type not in UNORDERED | LOOSE]
    if not columns:
        return None
    picked = random.sample(columns, min(len(columns), random.randrange(1, 4)))
    texts = ", ".join(text for text, _ in picked)
    if name == "aggregate":
        numbers = [text for text, type in columns if type in ("int4", "int2")] or ["1"]
        column, other = random.choice(numbers), picked[0][0] if picked[0][1] not in ("bool", "uuid", "bytea", "jsonb", "posint") and not picked[0][1].startswith("_") else random.choice(numbers)
        texts = f"count(*), sum({column}), min({other}), max({other})"
    if name == "having":
        having = expressions.expr("bool", Scope([dataclasses.replace(relation, columns=[column for column in relation.columns if column in picked]) for relation in scope.relations], aggregated=scope), 2, True)
        return Oracle(name, Node(f"select {texts}", source, f" group by {texts}"), having)
    return Oracle(name, Node(f"select {'distinct ' if name == 'distinct' else ''}{texts}", source), condition)


def check(oracle, client):
    """None, or how the answers differ."""
    ask = lambda sql: client.query(sql)[-1]
    # In brackets: `not exists (…) is null` is `not (exists (…) is null)`.
    query, condition = str(oracle.query), f"({oracle.condition})"
    if oracle.name in ("where", "distinct", "having"):
        word = "having" if oracle.name == "having" else "where"
        whole = ask(query)
        parts = [ask(f"{query} {word} {part}") for part in (condition, f"not {condition}", f"{condition} is null")]
        keep = (lambda rows: collections.Counter(set(map(plain, rows)))) if oracle.name == "distinct" else (lambda rows: collections.Counter(map(plain, rows)) if oracle.name == "having" else collections.Counter(rows))
        return differ(whole, parts, lambda: (keep(whole.rows), keep([row for part in parts for row in part.rows])))
    if oracle.name == "aggregate":
        whole = ask(query)
        parts = " union all ".join(f"({query} where {part})" for part in (condition, f"not {condition}", f"{condition} is null"))
        other = ask(f"select sum(a), sum(b), min(c), max(d) from ({parts}) as x(a, b, c, d)")
        return differ(whole, [other], lambda: ([plain(row) for row in whole.rows], [plain(row) for row in other.rows]))
    if oracle.name == "norec":
        rest = oracle.query.parts[1]
        filtered = ask(f"select count(*){rest} where {condition}")
        counted = ask(f"select coalesce(sum(case when p then 1 else 0 end), 0) from (select {condition} as p{rest} offset 0) as x")
        return differ(filtered, [counted], lambda: (filtered.rows, counted.rows))
    whole = ask(query)
    if oracle.name == "switches":
        for switch in oracle.detail:
            client.query(f"set {switch} = off")
        client.query("set work_mem = '64kB'")
        other = ask(query)
        for switch in (*oracle.detail, "work_mem"):
            client.query(f"reset {switch}")
    elif oracle.name == "indexes":
        if client.status != b"I":
            return None
        client.query("begin")
        for index in oracle.detail:
            client.query(f"drop index {index}")
        other = ask(query)
        client.query("rollback")
    else:
        client.query("set plan_cache_mode = force_generic_plan")
        failed = client.prepare("", query)
        other = failed or [client.execute("") for _ in range(6)][-1][-1]
        client.query("reset plan_cache_mode")
    return differ(whole, [other], lambda: (collections.Counter(map(plain, whole.rows)), collections.Counter(map(plain, other.rows))))


def differ(whole, parts, rows):
    failures = [one for one in (whole, *parts) if isinstance(one, Failure)]
    # Data errors come or do not come with the plan; what is refused is refused in all forms that hold it. So is a condition that is a
    # mistake, which the query without it is not.
    # In a transaction only the first of them is told why.
    wrong = {one.sqlstate for one in parts if isinstance(one, Failure)} - {"25P02"}
    if len(failures) == len(parts) and not isinstance(whole, Failure) and len(wrong) == 1 and wrong.pop()[:2] == "42":
        return None
    if failures:
        return None if all(one.sqlstate[:2] in ("22", "21", "54", "0A", "25") for one in failures) or len(failures) == 1 + len(parts) else f"one fails: {failures}"
    one, other = rows()
    return None if one == other else f"{dict(one) if isinstance(one, collections.Counter) else one}\n<> {dict(other) if isinstance(other, collections.Counter) else other}"



def plain(row):
    return tuple(value and plain_value(value) for value in row)
