"""Functions, aggregates, operators and casts that statements may use: what PostgreSQL 15's catalog says, as far as docs/functions.md says that Niwaki has it."""

import collections
import dataclasses
import pathlib
import re

from .values import ARRAYS, SCALARS, USERS

FUNCTIONS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "functions.md"
# Types as arguments and results; `name` and `"char"` come in by casts.
TYPES = {*SCALARS, *ARRAYS, *USERS, "name", "_name"}
POLYMORPHIC = {"anyelement", "anyarray", "anynonarray", "anycompatible", "anycompatiblearray", "anycompatiblenonarray", "anyenum", "any"}
ELEMENTS = ["int4", "text", "numeric", "int8", "float8", "bool", "date", "timestamptz"]
# Of the session or the time, without an answer that both could give, or what would only wait.
EXCLUDED = re.compile(r"pg_|has_|current|session_user|user$|version|txid|set_config|setval|setseed|currval|nextval|lastval|random|gen_random|clock|now$|statement_t|transaction_t|timeofday|localtime|niwaki|acl"
                      r"|col_desc|obj_desc|shobj|to_reg|row_security|getdatabase|inet|format_type|query_to|table_to|schema_to|database_to|cursor_to|lo_|similar_escape|convert|cbrt")
# Cube roots: glibc's are off by one unit in the last place at times, Niwaki's are not.
EXCLUDED_OPERATORS = {"||/"}
ROUTINES = """
select p.proname, p.prokind, p.proretset, p.provariadic <> 0, coalesce(a.aggkind, ' '),
       array_to_string(array(select t.typname from unnest(p.proargtypes) with ordinality x(o, n) join pg_type t on t.oid = x.o order by n), ' '),
       array_to_string(array(select format_type(x.o, null) from unnest(p.proargtypes) with ordinality x(o, n) order by n), ', '), r.typname
from pg_proc p join pg_type r on r.oid = p.prorettype left join pg_aggregate a on a.aggfnoid = p.oid
where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind in ('f', 'a', 'w') and p.provolatile <> 'v' and p.pronargs <= 6
order by 1, 6, p.oid"""
OPERATORS = """
select o.oprname, l.typname, r.typname, s.typname, coalesce(format_type(o.oprleft, null) || ', ', '') || format_type(o.oprright, null)
from pg_operator o left join pg_type l on l.oid = nullif(o.oprleft, 0) join pg_type r on r.oid = o.oprright join pg_type s on s.oid = o.oprresult
where o.oprnamespace = 'pg_catalog'::regnamespace order by 1, 2, 3"""
CASTS = """
select s.typname, t.typname from pg_cast c join pg_type s on s.oid = c.castsource join pg_type t on t.oid = c.casttarget where s.oid <> t.oid order by 1, 2"""


@dataclasses.dataclass(frozen=True)
class Routine:
    name: str
    arguments: tuple
    result: str
    variadic: bool = False

    def __str__(self):
        return f"{self.name}({', '.join(self.arguments)})"


class Catalog:
    """By result type: `functions`, `operators`; by argument types: `aggregates` by result, `windows`, `sets` (functions that give rows)."""

    def __init__(self, client):
        names, signatures, operators = documented()
        self.functions, self.operators, self.aggregates = (collections.defaultdict(list) for _ in range(3))
        self.windows, self.sets, self.casts = [], [], collections.defaultdict(list)
        for name, kind, gives_rows, variadic, aggregate, arguments, shown, result in rows(client, ROUTINES):
            if name not in names or EXCLUDED.match(name) or (variadic == "f" and shown not in signatures[name]):
                continue
            for routine in instances(name, tuple(arguments.split()), result, variadic == "t"):
                if kind == "a":
                    if aggregate == "n":
                        self.aggregates[routine.result].append(routine)
                elif kind == "w":
                    self.windows.append(routine)
                elif gives_rows == "t":
                    self.sets.append(routine)
                else:
                    self.functions[routine.result].append(routine)
        for name, left, right, result, shown in rows(client, OPERATORS):
            if shown in operators[name] and name not in EXCLUDED_OPERATORS:
                for routine in instances(name, (left, right) if left else (right,), result, False):
                    self.operators[routine.result].append(routine)
        for source, target in rows(client, CASTS):
            if source in TYPES and target in TYPES:
                self.casts[target].append(source)
        # All from the start: an episode chooses among these, whatever the ones before it have looked up.
        for type in TYPES:
            self.functions[type]


def rows(client, sql):
    return [tuple(None if value is None else value.decode() for value in row) for row in client.query(sql)[0].rows]


def documented():
    """Names of functions, their argument types, and operators' operands, from docs/functions.md."""
    names, signatures, operators = set(), collections.defaultdict(set), collections.defaultdict(set)
    for line in FUNCTIONS.read_text().splitlines():
        if found := re.match(r"- \*\*(\w+)\*\* (.*)", line):
            names.add(found[1])
            signatures[found[1]] |= {arguments for arguments in re.findall(r"`\(([^`]*?)\) →", found[2])}
        elif found := re.match(r"\| `(.*?)` \| (.*) \|$", line):
            operators[found[1].replace("\\|", "|")] |= {part.split(" → ")[0] for part in found[2].split("; ")}
    return names, signatures, operators


def instances(name, arguments, result, variadic):
    """The routine for each type that its polymorphic arguments may be."""
    if not POLYMORPHIC & {*arguments, result}:
        if all(type in TYPES for type in (*arguments, result)):
            yield Routine(name, arguments, result, variadic)
        return
    elements = ["mood"] if "anyenum" in arguments else ELEMENTS
    for element in elements:
        swap = lambda type: element if type in ("anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray", "anyenum", "any") else "_" + element if type in ("anyarray", "anycompatiblearray") else type
        made = tuple(map(swap, arguments)), swap(result)
        if all(type in TYPES or type == "_mood" for type in (*made[0], made[1])):
            yield Routine(name, *made, variadic)
