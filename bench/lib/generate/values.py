"""Values of PostgreSQL's types as SQL text: common ones that repeat, edges, and random ones."""

import re
import uuid

from .tree import Expr, sql_name

# Words that data and patterns share, so that they meet.
WORDS = ["", "a", "b", "A", "ab", "abc", "B", "foo", "bar", "Foo", "foo bar", " x ", "a%b", "a_b", "a\\b", "10", "-1", "3.5", "true", "x'y", "é", "Ünï", "日本語", "😀", "ß", "2021-03-04",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "tab\there", "zz", "{1,2}", "null", "NULL"]
UNITS = ["year", "month", "day", "hour", "minute", "second", "quarter", "week", "decade", "century", "millennium", "milliseconds", "microseconds", "dow", "doy", "isodow", "isoyear", "epoch", "timezone", "julian"]
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "EST5EDT", "+03", "-04:30"]
JSON = ["null", "1", "-2.50", "true", '"a"', "[]", "{}", "[1, 2, null]", '{"a": 1}', '{"a": {"b": [1, "x", true]}, "c": null}', '[{"a": 1}, {"b": 2}]', '{"b": 2, "a": "é", "a": 3}', "1e3",
        '[[1, 2], [3]]', '{"key": "foo"}']
# What the edges of each type are; the types that have none are made below.
EDGES = {
    "int2": ["0", "1", "-1", "2", "3", "10", "32767", "-32768"],
    "int4": ["0", "1", "-1", "2", "3", "5", "10", "100", "2147483647", "-2147483648"],
    "int8": ["0", "1", "-1", "2", "7", "100", "4294967296", "9223372036854775807", "-9223372036854775808"],
    "numeric": ["0", "1", "-1", "0.5", "2.00", "1.10", "3.14159", "100", "-0.001", "99999.99", "1e20", "1e-20", "123456789012345678901234567890.123456789", "NaN", "Infinity", "-Infinity"],
    "float4": ["0", "1", "-1", "0.5", "1.5", "3.4028235e38", "1e-45", "-0", "NaN", "Infinity", "-Infinity", "0.1"],
    "float8": ["0", "1", "-1", "0.5", "1.5", "1e308", "5e-324", "-0", "NaN", "Infinity", "-Infinity", "0.1", "123456789.123", "1e15"],
    "bool": ["true", "false"],
    "date": ["2000-01-01", "1970-01-01", "2021-03-04", "2020-02-29", "1999-12-31", "infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "0001-12-31 BC"],
    "time": ["00:00:00", "12:34:56", "23:59:59.999999", "24:00:00", "06:07:08.5"],
    "timetz": ["00:00:00+00", "12:34:56+02", "23:59:59.999999-08", "06:07:08.5+05:30"],
    "timestamp": ["2000-01-01 00:00:00", "2021-03-04 05:06:07", "2021-03-04 05:06:07.89", "1999-12-31 23:59:59.999999", "infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59"],
    "timestamptz": ["2000-01-01 00:00:00+00", "2021-03-04 05:06:07+00", "2021-03-28 01:30:00+00", "2021-11-07 05:59:59-04", "infinity", "-infinity", "1883-11-18 12:00:00-05"],
    "interval": ["0", "1 day", "1 month", "1 year 2 months 3 days 04:05:06.789", "-1 day", "24:00:00", "30 days", "-00:00:00.000001", "100 years", "1 mon -1 day", "90 minutes"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "bytea": ["", "\\x00", "\\xff", "\\x616263", "\\xdeadbeef", "\\x00ff00ff00ff"],
    "json": JSON, "jsonb": JSON,
    "char": ["a", "b", "", "z"],
    "name": ["a", "foo", "Foo", "pg_class"],
    "mood": ["sad", "ok", "happy", "très bien"],
    "posint": ["1", "2", "5", "1000"],
    "pair": ['(1,a)', '(2,"b c")', '(,)', '(1,)', '(-5,"x""y")'],
}
TEXTS = ("text", "varchar", "bpchar")
SCALARS = ["int2", "int4", "int8", "numeric", "float4", "float8", "text", "varchar", "bpchar", "bool", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "bytea", "json", "jsonb"]
ARRAYS = ["_int4", "_text", "_int8", "_numeric", "_float8", "_bool", "_date", "_timestamptz"]
USERS = ["mood", "posint", "pair"]
# No operators of btree.
UNORDERED = {"json"}
# Values may be equal and not look the same: `differential.py` looks at such rows in another way, or the generator does not let one of them be chosen.
LOOSE = {"interval", "pair"}
# How columns of a type may be declared.
DECLARED = {"varchar": ["varchar", "varchar(5)", "varchar(20)"], "bpchar": ["char(5)", "char(1)", "char(20)"], "numeric": ["numeric", "numeric(10,2)", "numeric(6)", "numeric(12,4)"],
            "time": ["time", "time(2)"], "timestamp": ["timestamp", "timestamp(3)"], "timestamptz": ["timestamptz", "timestamptz(0)"], "interval": ["interval", "interval(2)"]}


def quote(text):
    text = text.replace("'", "''")
    return f"E'{text}'".replace("\\", "\\\\") if "\\" in text else f"'{text}'"


def text_of(random, type, edges=0.15):
    """A value as the type's input function reads it."""
    if type.startswith("_"):
        return array_text(random, type[1:], edges)
    known = EDGES.get(type)
    if type in TEXTS:
        known = WORDS
    if known and (random.random() < edges or type in ("bool", "json", "jsonb", "mood", "posint", "pair", "char", "name")):
        return random.choice(known)
    if type in TEXTS:
        return random.choice(WORDS[:14]) if random.random() < 0.7 else "".join(random.choice("abcAB 01é%_") for _ in range(random.randrange(12)))
    if type in ("int2", "int4", "int8"):
        return str(random.randrange(-2, 10) if random.random() < 0.7 else random.randrange(-1000, 10000))
    if type == "numeric":
        return f"{random.randrange(-200, 2000) / 100:.{random.randrange(3)}f}"
    if type in ("float4", "float8"):
        return str(random.randrange(-8, 40) / 4 if random.random() < 0.7 else random.uniform(-1000, 1000))
    day = f"20{random.randrange(15, 25):02}-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}"
    hour = f"{random.randrange(24):02}:{random.choice(('00:00', '30:00', '15:45', '59:59.5', '07:08.123456'))}"
    made = {"date": day, "time": hour, "timetz": hour + random.choice(("+00", "+02", "-07:30")), "timestamp": f"{day} {hour}", "timestamptz": f"{day} {hour}+00",
            "interval": f"{random.randrange(-3, 20)} {random.choice(('days', 'hours', 'months', 'minutes', 'years', 'seconds'))}",
            "uuid": str(uuid.UUID(int=random.choice((random.randrange(8), random.getrandbits(128))))),
            "bytea": "\\x" + bytes(random.randrange(256) for _ in range(random.randrange(6))).hex()}
    return made[type]


def array_text(random, element, edges):
    """The literal of an array, mostly of one dimension."""
    def item():
        if random.random() < 0.15:
            return "NULL"
        text = text_of(random, element, edges).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'

    if random.random() < 0.08:
        return "{{%s,%s},{%s,%s}}" % (item(), item(), item(), item())
    bounds = "[0:1]=" if random.random() < 0.04 else ""
    return bounds + "{" + ",".join(item() for _ in range(2 if bounds else random.randrange(5))) + "}"


def literal(random, type, edges=0.15):
    """A constant, with its type written beside it unless it is plain without."""
    text = text_of(random, type, edges)
    if type == "bool" or type == "int4" and text != "-2147483648":
        return Expr(type, text if not text.startswith("-") else f"({text})")
    if type == "numeric" and "." in text and "e" not in text and random.random() < 0.5:
        return Expr(type, f"({text})")
    return Expr(type, f"{quote(text)}::{sql_name(type)}")


def plain_value(value):
    """What a server sent, without what equal values may look different by: zeros at the end, the sign of zero, blanks at the end."""
    value = re.sub(rb"(\.\d*?)0+(?!\d)", rb"\1", value)
    return re.sub(rb"\.(?!\d)", b"", re.sub(rb"(?<![\d.])-0(?![\d.])", b"0", value)).rstrip(b" ")
