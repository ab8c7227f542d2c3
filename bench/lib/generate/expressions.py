"""Typed expressions over the columns of a scope.

`careful` expressions are made of what cannot fail, for places where PostgreSQL leaves open which of several expressions is computed first, or at all.
"""

import dataclasses

from .tree import Expr, Items, sql_name
from .values import ARRAYS, LOOSE, SCALARS, TEXTS, UNITS, UNORDERED, USERS, WORDS, ZONES, literal, quote

# What careful expressions may call.
TOTAL = {"lower", "upper", "length", "char_length", "octet_length", "bit_length", "md5", "reverse", "concat", "concat_ws", "left", "right", "btrim", "ltrim", "rtrim", "strpos", "starts_with", "isfinite", "cardinality",
         "array_length", "array_ndims", "array_upper", "array_dims", "floor", "ceil", "round", "trunc", "sign", "jsonb_typeof", "json_typeof", "to_json", "to_jsonb", "quote_literal", "quote_nullable", "quote_ident", "initcap",
         "replace", "translate", "array_to_string", "scale", "trim_scale", "date_part", "jsonb_strip_nulls", "num_nulls", "num_nonnulls", "to_hex", "ascii", "array_remove", "array_positions", "sha256", "string_to_array",
         "jsonb_build_array", "json_build_array", "enum_larger", "enum_smaller", "position", "bit_count", "atan", "degrees", "tanh", "array_replace", "array_to_json"}
TOTAL_OPERATORS = {"=", "<>", "<", "<=", ">", ">=", "&", "|", "#", "~~*", "@>", "<@", "&&", "->", "->>", "?", "^@", "~<~", "~>=~", "?|", "?&", "#>", "#>>"}
PICTURES = ["YYYY-MM-DD HH24:MI:SS.US", "Day, DD Mon YYYY", "FMMonth FMDDth", "IYYY-IW-ID", "J Q CC", "HH12:MI AM TZ", "DDD WW W", "YYY RM fmrm SSSS", "Dy \"text\" D", "MS US FF3", "yyyy BC", "HH:MI"]
NUMBER_PICTURES = ["999.99", "FM999,990.00", "S9999", "9999MI", "0000", "9.99EEEE", "RN", "FMRN", "L999", "999th", "PR99", "99V99", "$99", "9G999D99", "FM9.9##", "<99>", "SG99", "9999999999999999.999"]
PATTERNS = ["a", "^a", "b$", "[abc]+", "(a)(b)?", "a|b", ".*", "\\d+", "(foo)", "[[:alpha:]]+", "x*", "\\s", "(?i)A", "é", "^$", "a{1,2}", "(", "\\m\\w+"]
HINTS = {("date_trunc", 0): UNITS, ("date_part", 0): UNITS, ("extract", 0): UNITS, ("timezone", 0): ZONES, ("to_date", 1): PICTURES, ("to_timestamp", 1): PICTURES, ("to_number", 1): NUMBER_PICTURES,
         ("encode", 1): ["hex", "base64", "escape"], ("decode", 1): ["hex", "base64", "escape"], ("normalize", 1): ["NFC"], ("is_normalized", 1): ["NFC"], ("unistr", 0): ["\\0041", "d\\0061t\\+000061", "a"],
         ("jsonb_set_lax", 4): ["use_json_null", "delete_key", "return_target", "raise_exception"], ("regexp_replace", 3): ["g", "i", "", "n"], ("regexp_matches", 2): ["g", "i"], ("regexp_match", 2): ["i", "n"],
         ("length", 1): ["UTF8"], ("date_trunc", 2): ZONES, ("to_char", 1): PICTURES + NUMBER_PICTURES, ("json_object_field", 1): ["a", "b"], ("jsonb_object_field", 1): ["a", "b"],
         ("json_extract_path", 1): ["a", "0"], ("jsonb_extract_path", 1): ["a", "0"], ("format", 0): ["%s", "%s-%I", "%L", "%2$s", "%-5s|", "%%", "a"], ("make_timestamptz", 6): ZONES, ("string_to_array", 1): ["", " ", ","],
         ("split_part", 1): ["", " ", "a", "o"]}
# Functions whose integers say how much memory or time they take.
SMALL = {"repeat", "lpad", "rpad", "array_fill", "generate_series", "factorial", "power", "pow", "^", "exp", "round", "trunc", "date_bin"}
COLLATIONS = ['"C"', '"POSIX"', '"C"']


@dataclasses.dataclass
class Relation:
    """What FROM gives: columns as (text, type); `key`, texts that tell its rows apart, if it is known."""
    columns: list
    key: list | None = None


@dataclasses.dataclass
class Scope:
    """What an expression may name, and what else it may hold: aggregates over another scope's columns, window calls."""
    relations: list
    outer: "Scope | None" = None
    aggregated: "Scope | None" = None
    windows: bool = False

    def columns(self, type=None, outer=True):
        found = [text for relation in self.relations for text, its in relation.columns if type in (None, its)]
        return found + (self.outer.columns(type) if outer and self.outer else [])

    def typed(self):
        return [column for relation in self.relations for column in relation.columns]

    def key(self):
        """Texts that tell the scope's rows apart, or None."""
        keys = [relation.key for relation in self.relations]
        return None if None in keys else [text for key in keys for text in key]


class Expressions:
    def __init__(self, random, catalog):
        self.random, self.catalog, self.queries = random, catalog, None
        # How many constants are edges of their type.
        self.edges = 0.15

    def chance(self, probability):
        return self.random.random() < probability

    def type(self):
        roll = self.random.random()
        if roll < 0.55:
            return self.random.choice(["int4", "int4", "int8", "text", "numeric", "bool", "float8", "date", "timestamptz"])
        return self.random.choice(SCALARS) if roll < 0.82 else self.random.choice(ARRAYS) if roll < 0.93 else self.random.choice(USERS)

    def key_type(self):
        """A type whose equal values look the same, but for what the comparison knows."""
        while True:
            type = self.type()
            if type not in UNORDERED | LOOSE:
                return type

    def leaf(self, type, scope):
        columns = scope.columns(type)
        if columns and self.chance(0.8):
            return Expr(type, self.random.choice(columns))
        if self.chance(0.05):
            return Expr(type, f"null::{sql_name(type)}")
        return literal(self.random, type, self.edges)

    def expr(self, type, scope, depth, careful=False):
        if scope.aggregated and self.chance(0.4) and (made := self.aggregate(type, scope, depth, careful)):
            return made
        if scope.windows and self.chance(0.3) and (made := self.window(type, scope, depth, careful)):
            return made
        if depth <= 0 or self.chance(0.2):
            return self.leaf(type, scope)
        deeper = lambda its: self.expr(its, scope, depth - 1, careful)
        ways = [self.case, self.coalesce]
        if type == "bool":
            ways = [self.condition] * 8 + ways
        if self.catalog.functions[type]:
            ways += [self.call] * 4
        if self.catalog.operators[type]:
            ways += [self.operation] * 4
        if self.catalog.casts[type] and not careful:
            ways += [self.cast] * 2
        if type in TEXTS or not careful:
            ways += [self.text_cast]
        if "_" + type in ARRAYS:
            ways += [self.element]
        if type.startswith("_"):
            ways += [self.array] * 2
        if type in ("int4", "text", "pair"):
            ways += [self.composite]
        if type in ("text", "numeric", "timestamp", "timestamptz"):
            ways += [self.special]
        if self.queries and depth > 1:
            ways += [self.queries.scalar] if type not in LOOSE else []
        made = self.random.choice(ways)(type, scope, depth, careful, deeper)
        return made or self.leaf(type, scope)

    def case(self, type, scope, depth, careful, deeper):
        if self.chance(0.3):
            its = self.key_type()
            return Expr(type, "(case ", deeper(its), " when ", deeper(its), " then ", deeper(type), " when ", deeper(its), " then ", deeper(type), " end)")
        return Expr(type, "(case when ", deeper("bool"), " then ", deeper(type), " else ", deeper(type), " end)")

    def coalesce(self, type, scope, depth, careful, deeper):
        roll = self.random.random()
        if roll < 0.5 or type in UNORDERED:
            return Expr(type, "coalesce(", deeper(type), ", ", deeper(type), ")")
        if roll < 0.7:
            return Expr(type, "nullif(", deeper(type), ", ", deeper(type), ")")
        if type in LOOSE:
            return None
        return Expr(type, self.random.choice(("greatest(", "least(")), Items([deeper(type) for _ in range(self.random.randrange(1, 4))]), ")")

    def argument(self, name, index, type, deeper):
        if type == "text" and (name, index) in HINTS:
            return Expr(type, quote(self.random.choice(HINTS[name, index])))
        if type == "text" and index == 1 and (name.startswith("regexp") or name in ("~", "~*", "!~", "!~*")):
            return Expr(type, quote(self.random.choice(PATTERNS)))
        if name in SMALL and type in ("int2", "int4", "int8", "numeric", "float8") and (index or name in ("factorial", "exp")):
            return Expr(type, f"{self.random.randrange(-2, 12)}" if type == "int4" else f"{self.random.randrange(-2, 12)}::{type}")
        if name == "array_fill" and type == "_int4":
            return Expr(type, self.random.choice(("array[2]", "array[2,2]", "array[0]", "array[]::int4[]")))
        return deeper(type)

    def call(self, type, scope, depth, careful, deeper):
        routines = [routine for routine in self.catalog.functions[type] if not careful or routine.name in TOTAL]
        if not routines:
            return None
        # By name first, so that a function of many types is not called more often than others.
        name = self.random.choice(sorted({routine.name for routine in routines}))
        routine = self.random.choice([routine for routine in routines if routine.name == name])
        arguments = [self.argument(routine.name, index, its, deeper) for index, its in enumerate(routine.arguments)]
        if routine.variadic:
            arguments = arguments[:-1] + [self.argument(routine.name, len(arguments), routine.arguments[-1].lstrip("_"), deeper) for _ in range(self.random.randrange(1, 4))]
        if routine.name in ("extract", "overlaps", "position", "timezone") or routine.name == "normalize":
            return self.syntax(routine, arguments)
        return Expr(type, f"{routine.name}(", *between(arguments), ")")

    def syntax(self, routine, arguments):
        """Functions that are mostly reached by a syntax of their own."""
        if routine.name == "extract":
            return Expr(routine.result, "extract(", str(arguments[0]).strip("'"), " from ", arguments[1], ")")
        if routine.name == "overlaps":
            return Expr(routine.result, "((", arguments[0], ", ", arguments[1], ") overlaps (", arguments[2], ", ", arguments[3], "))")
        if routine.name == "timezone" and len(arguments) == 2:
            return Expr(routine.result, "(", arguments[1], " at time zone ", arguments[0], ")")
        if routine.name == "normalize":
            return Expr(routine.result, "normalize(", arguments[0], ")")
        return Expr(routine.result, "position(", arguments[0], " in ", arguments[1], ")") if routine.name == "position" else None

    def operation(self, type, scope, depth, careful, deeper):
        routines = [routine for routine in self.catalog.operators[type] if not careful or routine.name in TOTAL_OPERATORS
                    or routine.name == "||" and "text" in routine.arguments or routine.name in "+-*" and routine.arguments == ("numeric", "numeric")]
        if not routines:
            return None
        name = self.random.choice(sorted({routine.name for routine in routines}))
        routine = self.random.choice([routine for routine in routines if routine.name == name])
        arguments = [self.argument(routine.name, index, its, deeper) for index, its in enumerate(routine.arguments)]
        if len(arguments) == 1:
            return Expr(type, f"({routine.name} ", arguments[0], ")")
        if self.chance(0.1) and not careful:
            # A constant whose type is found from the other side.
            arguments[1] = Expr(routine.arguments[1], quote(str(self.random.choice(WORDS[8:16] + ["1", "2", "3.5"]))))
        return Expr(type, "(", arguments[0], f" {routine.name} ", arguments[1], ")")

    def cast(self, type, scope, depth, careful, deeper):
        source = self.random.choice(self.catalog.casts[type])
        return Expr(type, "(", deeper(source), f")::{sql_name(type)}") if self.chance(0.7) else Expr(type, "cast(", deeper(source), f" as {sql_name(type)})")

    def text_cast(self, type, scope, depth, careful, deeper):
        if type in TEXTS:
            return Expr(type, "(", deeper(self.type()), f")::{sql_name(type)}")
        return Expr(type, "(", deeper("text"), f")::{sql_name(type)}")

    def element(self, type, scope, depth, careful, deeper):
        return Expr(type, "(", deeper("_" + type), f")[{self.random.randrange(-1, 4)}]")

    def array(self, type, scope, depth, careful, deeper):
        if self.chance(0.3):
            return Expr(type, "(", deeper(type), f")[{self.random.randrange(0, 3)}:{self.random.choice(('', '1', '2', '5'))}]")
        return Expr(type, "array[", Items([deeper(type[1:]) for _ in range(self.random.randrange(1, 4))]), "]")

    def composite(self, type, scope, depth, careful, deeper):
        if type == "pair":
            return Expr(type, "row(", deeper("int4"), ", ", deeper("text"), ")::pair")
        return Expr(type, "(", deeper("pair"), ").", "a" if type == "int4" else "b")

    def special(self, type, scope, depth, careful, deeper):
        number = lambda low, high: str(self.random.randrange(low, high))
        if type == "numeric":
            unit = self.random.choice(UNITS)
            return Expr(type, f"extract({unit} from ", deeper(self.random.choice(("date", "timestamp", "interval", "time", "timestamptz"))), ")") if not careful else None
        if type == "text":
            ways = [("substring(", deeper("text"), f" from {number(-2, 6)} for {number(0, 5)})"), (f"trim({self.random.choice(('both', 'leading', 'trailing'))} 'a ' from ", deeper("text"), ")"),
                    ("overlay(", deeper("text"), " placing ", deeper("text"), f" from {number(1, 5)} for {number(0, 4)})"), ("(", deeper("text"), f" collate {self.random.choice(COLLATIONS)})")]
            return Expr(type, *self.random.choice(ways))
        other = "timestamptz" if type == "timestamp" else "timestamp"
        return Expr(type, "(", deeper(other), f" at time zone {quote(self.random.choice(ZONES))})") if not careful else None

    def condition(self, type, scope, depth, careful, deeper):
        its = self.key_type()
        columns = [column for column in scope.typed() if column[1] not in UNORDERED]
        if columns and self.chance(0.7):
            its = self.random.choice(columns)[1]
        roll = self.random.randrange(16)
        compare = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
        if roll < 4:
            return Expr(type, "(", deeper(its), f" {compare} ", deeper(its), ")")
        if roll < 6:
            return Expr(type, "(", deeper(type), self.random.choice((" and ", " or ")), deeper(type), ")")
        if roll == 6:
            return Expr(type, "(not ", deeper(type), ")")
        if roll == 7:
            return Expr(type, "(", deeper(self.type()), self.random.choice((" is null)", " is not null)")))
        if roll == 8:
            return Expr(type, "(", deeper(its), self.random.choice((" is distinct from ", " is not distinct from ")), deeper(its), ")")
        if roll == 9:
            return Expr(type, "(", deeper(its), self.random.choice((" between ", " not between ", " between symmetric ")), deeper(its), " and ", deeper(its), ")")
        if roll == 10:
            return Expr(type, "(", deeper(its), self.random.choice((" in (", " not in (")), Items([deeper(its) for _ in range(self.random.randrange(1, 5))]), "))")
        if roll == 11:
            pattern = quote(self.random.choice(["%", "a%", "%b", "_", "a_", "%a%", "é%", "foo%", "", "%\\\\%%", "___"]))
            return Expr(type, "(", deeper("text"), self.random.choice((" like ", " not like ", " ilike ")), pattern, ")")
        if roll == 12:
            return Expr(type, "(", deeper(type), self.random.choice((" is true)", " is not true)", " is unknown)", " is false)", " is not false)")))
        if roll == 13 and "_" + its in ARRAYS:
            return Expr(type, "(", deeper(its), f" {compare} {self.random.choice(('any', 'all'))} (", deeper("_" + its), "))")
        if roll == 14:
            other = self.key_type()
            return Expr(type, "((", deeper(its), ", ", deeper(other), f") {compare} (", deeper(its), ", ", deeper(other), "))")
        if self.queries and depth > 1:
            return self.queries.membership(its, scope, depth, careful, deeper)
        return Expr(type, "(", deeper(its), f" {compare} ", deeper(its), ")")

    def order(self, scope, columns=None):
        """A list for ORDER BY that leaves no ties but between rows that look the same, of a scope with a key; or of the columns that are given."""
        columns = list(columns if columns is not None else scope.key())
        self.random.shuffle(columns)
        return ", ".join(f"{column}{self.random.choice(('', '', ' desc', ' asc nulls first', ' desc nulls last'))}" for column in columns)

    def aggregate(self, type, scope, depth, careful):
        """A call of an aggregate that gives this type; what depends on the order of rows has an order inside."""
        inner = dataclasses.replace(scope.aggregated, aggregated=None, windows=False)
        routines = self.catalog.aggregates[type]
        if not routines:
            return None
        name = self.random.choice(sorted({routine.name for routine in routines}))
        routine = self.random.choice([routine for routine in routines if routine.name == name])
        if name == "count" and self.chance(0.4):
            return Expr(type, "count(*)", *self.filter(inner, depth, careful))
        if any(argument in LOOSE for argument in routine.arguments) and name in ("min", "max"):
            return None
        arguments = [self.expr(its, inner, min(depth - 1, 2), careful) for its in routine.arguments]
        ordered = name.startswith(("array_agg", "string_agg", "json", "xml")) or {"float4", "float8"} & set(routine.arguments)
        distinct = self.chance(0.2) and not ordered and all(its not in UNORDERED | LOOSE for its in routine.arguments)
        tail = []
        if ordered:
            texts = [f"{argument}" if its not in UNORDERED | {"pair"} else f"({argument})::text" for argument, its in zip(arguments, routine.arguments)]
            texts += [f"({argument})::text" for argument, its in zip(arguments, routine.arguments)]
            tail = [" order by ", Items(texts)]
            # The same text twice must stay the same when it is made smaller.
            arguments = [Expr(argument.type, str(argument)) for argument in arguments]
        return Expr(type, f"{name}({'distinct ' if distinct else ''}", *between(arguments), *tail, ")", *self.filter(inner, depth, careful))

    def filter(self, scope, depth, careful):
        return [" filter (where ", self.expr("bool", scope, 1, True), ")"] if self.chance(0.15) else []

    def window(self, type, scope, depth, careful):
        """A window call; ROWS, and what tells peers apart, only over a total order."""
        inner = dataclasses.replace(scope, windows=False)
        key = inner.key()
        partition = [text for text, its in inner.typed() if its not in UNORDERED | LOOSE]
        spec = []
        if partition and self.chance(0.6):
            spec += ["partition by ", Items(self.random.sample(partition, min(len(partition), self.random.randrange(1, 3)))), " "]
        calls = [routine for routine in self.catalog.windows if routine.result == type]
        peers = [routine for routine in calls if routine.name in ("rank", "dense_rank", "percent_rank", "cume_dist")]
        aggregates = [routine for routine in self.catalog.aggregates[type] if not {"float4", "float8"} & set(routine.arguments) and not routine.name.startswith(("array_agg", "string_agg", "json"))
                      and not (routine.name in ("min", "max") and routine.arguments[0] in LOOSE) and routine.arguments]
        if key and self.chance(0.6):
            if not calls + aggregates:
                return None
            routine = self.random.choice(calls + aggregates)
            spec += ["order by ", self.order(inner), self.frame("rows", "groups", "range")]
        else:
            if not peers + aggregates:
                return None
            routine = self.random.choice(peers + aggregates)
            if partition and self.chance(0.7):
                spec += ["order by ", self.order(inner, [self.random.choice(partition)]), self.frame("groups", "range")]
        arguments = [self.random.choice(("1", "2", "3")) if index and its == "int4" or routine.name == "ntile" else self.expr(its, inner, 1, careful) for index, its in enumerate(routine.arguments)]
        return Expr(type, f"{routine.name}(", *between(arguments), ") over (", *spec, ")")

    def frame(self, *modes):
        if self.chance(0.5):
            return ""
        mode = self.random.choice(modes)
        offset = lambda: "unbounded" if mode == "range" else self.random.choice(("unbounded", "0", "1", "2"))
        ends = [f"{offset()} preceding", "current row", f"{offset()} following"]
        first = self.random.choice(ends[:2] + ([ends[2]] if mode != "range" else []))
        if first.startswith("unbounded f"):
            first = "current row"
        last = self.random.choice(ends[1:] if not first.endswith("following") else ["unbounded following"])
        return f" {mode} between {first} and {last}{self.random.choice(('', '', '', ' exclude current row', ' exclude ties', ' exclude group'))}"


def between(items):
    """The items with commas between them, as parts of a node."""
    parts = []
    for item in items:
        parts += [", ", item] if parts else [item]
    return parts
