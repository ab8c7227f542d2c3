"""PostgreSQL's own regression scripts, statement by statement, on PostgreSQL 15 and on Niwaki beside it.

Each statement comes to one of these:

    same      the same columns, rows, tags, SQLSTATEs (of EXPLAIN: that it answers)
    refused   Niwaki says by name that it has no such thing: SQLSTATE 0A000
    after     it reads something that is not the same on both since an earlier statement was refused, or failed: something
              that it names, that a view or rule of it reads, or whose name its LIKE finds; or one side runs as another user
    ordered   the same rows in another order, and nothing in the statement says that there is one
    code      both fail, with other SQLSTATEs
    fails     Niwaki fails where PostgreSQL answers
    accepts   Niwaki answers where PostgreSQL fails
    shape     the same rows, with other names or types of columns, or another tag
    wrong     other rows
    slow      no answer within the time that is given
    crash     the connection is lost
    known     it differs for a reason that stands in KNOWN

What must never be seen is `wrong` and `crash`.
"""

import collections
import dataclasses
import pathlib
import re

import postgres_source
from psql_script import VARIABLE, Command, Script, expand, reference
from servers import ROOT
from wire import Client, Failure, Lost, Result

SETTINGS = {"TimeZone": "PST8PDT", "DateStyle": "Postgres, MDY", "IntervalStyle": "postgres_verbose", "application_name": "regress"}
KINDS = ("same", "refused", "after", "ordered", "code", "fails", "accepts", "shape", "wrong", "slow", "crash", "known")
SECONDS = 20
KNOWN = pathlib.Path(__file__).with_name("regress_known.txt")
# Which system relations have rows of what a definition makes: where it was refused, they are not the same on both.
CATALOGS = {
    r"publication": "pg_publication pg_publication_rel pg_publication_namespace pg_publication_tables",
    r"subscription": "pg_subscription pg_subscription_rel",
    r"foreign|server|user mapping": "pg_foreign_data_wrapper pg_foreign_server pg_foreign_table pg_user_mapping pg_user_mappings foreign_data_wrappers "
                                    "foreign_data_wrapper_options foreign_servers foreign_server_options foreign_tables foreign_table_options user_mappings user_mapping_options",
    r"tablespace": "pg_tablespace",
    r"role|user|group": "pg_authid pg_roles pg_auth_members pg_user pg_group pg_shadow",
    r"statistics": "pg_statistic_ext pg_statistic_ext_data pg_stats_ext pg_stats_ext_exprs",
    r"collation": "pg_collation",
    r"operator": "pg_operator pg_amop pg_amproc pg_opclass pg_opfamily",
    r"rule": "pg_rules pg_rewrite",
    r"policy": "pg_policy pg_policies",
    r"event trigger": "pg_event_trigger",
    r"text search": "pg_ts_config pg_ts_config_map pg_ts_dict pg_ts_parser pg_ts_template",
    r"(trusted )?language": "pg_language",
    r"cast": "pg_cast",
    r"conversion": "pg_conversion",
}


def fetch():
    """The folder of the scripts, out of PostgreSQL's source."""
    return postgres_source.fetch("postgres15-regress", r"[^/]+/src/test/regress/((?:sql|data|expected)/[^/]+|parallel_schedule)$")


def schedule(folder):
    """The scripts, in PostgreSQL's order."""
    return postgres_source.schedule(folder / "parallel_schedule")


def known():
    """(script, or script:line, and the beginning of the statement) → why its answer differs."""
    found, reason = {}, ""
    for line in KNOWN.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            script, begin = line.split(None, 1)
            found[script, begin] = reason
    return found


@dataclasses.dataclass
class Verdict:
    kind: str
    script: str
    line: int
    sql: str
    ours: str = ""
    theirs: str = ""


class Side:
    """One of the servers: its connection, and the script's variables there."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.new_script()

    def new_script(self):
        self.variables = {"DBNAME": "postgres", "USER": "postgres"}
        self.connect()

    def connect(self, user="postgres"):
        if getattr(self, "client", None):
            self.client.close()
        try:
            self.client = Client(self.server.port, user=user, settings=SETTINGS, timeout=SECONDS)
        except ConnectionError:
            self.client = Client(self.server.port, settings=SETTINGS, timeout=SECONDS)

    def run(self, sql, data):
        """What it answers; `Lost` after the server was started again."""
        try:
            return self.client.query(sql, data)
        except Lost as lost:
            if self.server.process.poll() is not None:
                self.server.start()
            self.connect()
            return lost


class Comparer:
    def __init__(self, ours, theirs, folder):
        self.ours, self.theirs, self.folder = Side(ours, folder), Side(theirs, folder), folder
        self.sides = (self.ours, self.theirs)
        self.watch = Client(theirs.port, timeout=120)
        self.known = known()
        self.verdicts, self.objects, self.unlike = [], set(), set()
        # What the views and rules of a relation read and write; and whether SET ROLE was refused.
        self.behind, self.other_user = {}, False
        self.look_for_objects()

    def look_for_objects(self):
        """Names of what users made, on PostgreSQL."""
        names = ("select relname from pg_class where oid >= 16384 union select proname from pg_proc where oid >= 16384 "
                 "union select typname from pg_type where oid >= 16384 union select nspname from pg_namespace where oid >= 16384 "
                 "union select rolname from pg_roles where oid >= 16384 union select name from pg_prepared_statements "
                 "union select evtname from pg_event_trigger union select collname from pg_collation where oid >= 16384 "
                 "union select conname from pg_constraint where oid >= 16384 union select tgname from pg_trigger where not tgisinternal")
        found = self.watch.query(names)[0]
        self.objects |= {value.decode(errors="replace") for value, in found.rows}

    def look_behind(self):
        pairs = ("select distinct v.relname, t.relname from pg_depend d join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid "
                 "join pg_class v on v.oid = r.ev_class join pg_class t on d.refclassid = 'pg_class'::regclass and t.oid = d.refobjid "
                 "where v.oid >= 16384 and t.oid >= 16384 and v.oid <> t.oid")
        for row in self.watch.query(pairs)[0].rows:
            view, read = (value.decode(errors="replace") for value in row)
            self.behind.setdefault(view, set()).add(read)

    def with_behind(self, names):
        """The names, and all that stands behind views and rules among them."""
        found, left = set(names), list(names)
        while left:
            more = self.behind.get(left.pop(), set()) - found
            found |= more
            left += more
        return found

    def reads_unlike(self, sql):
        words = words_of(sql)
        if self.with_behind(words) & self.unlike:
            return True
        found = re.findall(r"(~|\blike\b)\s+(E?)'((?:[^']|'')*)'", sql, re.I)
        patterns = [pattern_of(operator, literal.replace("\\\\", "\\") if escapes else literal) for operator, escapes, literal in found]
        return any(pattern.match(name) for pattern in patterns if pattern for name in self.unlike)

    def run_script(self, name):
        for side in self.sides:
            side.new_script()
        self.other_user = False
        script = Script((self.folder / "sql" / f"{name}.sql").read_text(encoding="utf-8", errors="replace"))
        taken = []
        skipping = []
        for item in script:
            if isinstance(item, Command):
                if item.name in ("if", "elif", "else", "endif"):
                    self.condition(item, skipping)
                elif item.name in ("q", "quit") and not any(skipping):
                    break
                elif not any(skipping):
                    self.command(item, name, script)
                continue
            if any(skipping):
                continue
            taken.clear()

            def data():
                if not taken:
                    taken.append(script.data())
                return taken[0]

            self.statement(item, name, data)

    def condition(self, command, skipping):
        """`skipping` has a Branch for each \\if that is open."""
        text = expand_line(command.arguments, self.theirs.variables).strip().lower()
        true = text in ("1", "t", "true", "on", "yes", "y")
        if command.name == "if":
            skipping.append(Branch(not true, true))
        elif skipping and command.name in ("elif", "else"):
            branch = skipping[-1]
            skip = branch.taken or not (command.name == "else" or true)
            skipping[-1] = Branch(skip, branch.taken or not skip)
        elif skipping:
            skipping.pop()

    def command(self, command, name, script):
        for side in self.sides:
            words = split_arguments(command.arguments, side.variables)
            if command.name == "set" and words:
                side.variables[words[0]] = "".join(words[1:])
            elif command.name == "unset" and words:
                side.variables.pop(words[0], None)
            elif command.name == "getenv" and len(words) == 2:
                values = {"PG_ABS_SRCDIR": str(self.folder), "PG_ABS_BUILDDIR": str(self.folder / "out"), "PG_LIBDIR": "/nowhere", "PG_DLSUFFIX": ".so"}
                side.variables[words[0]] = values.get(words[1], "")
            elif command.name in ("c", "connect"):
                user = words[1] if len(words) > 1 and words[1] != "-" else "postgres"
                side.connect(user)
        if command.name == "copy" and re.search(r"\bfrom\s+stdin\b", command.arguments, re.I):
            data = script.data()
            self.both(lambda side: f"COPY {expand_line(command.arguments, side.variables)}", name, command.line, lambda: data)

    def statement(self, statement, name, data):
        results = self.both(lambda side: statement.text(side.variables), name, statement.line, data)
        for side, found in zip(self.sides, results):
            last = found[-1] if isinstance(found, list) and found else None
            if statement.sent_by == "gset" and isinstance(last, Result) and len(last.rows) == 1:
                for (column, _), value in zip(last.columns, last.rows[0]):
                    variable = statement.arguments + column
                    if value is None:
                        side.variables.pop(variable, None)
                    else:
                        side.variables[variable] = value.decode(errors="replace")
        if statement.sent_by == "gexec":
            made = [[value.decode() for row in found[-1].rows for value in row if value is not None]
                    if isinstance(found, list) and found and isinstance(found[-1], Result) else [] for found in results]
            if made[0] == made[1]:
                for sql in made[1]:
                    self.both(lambda _: sql, name, statement.line, data)

    def both(self, text, name, line, data):
        sqls = [text(side) for side in self.sides]
        theirs = self.theirs.run(sqls[1], data)
        ours = self.ours.run(sqls[0], data)
        kind = self.judge(ours, theirs, sqls[1])
        before = set(self.objects)
        changes = not re.match(r"(select|values|table|explain|show|with)\b", sqls[1], re.I) or re.search(r"\b(into|insert|update|delete|merge)\b", sqls[1], re.I)
        if changes and not re.match(r"(begin|start|commit|end|rollback|abort|savepoint|release)\b", sqls[1], re.I):
            self.look_for_objects()
            if re.search(r"\b(view|rule)\b", sqls[1], re.I):
                self.look_behind()
        if re.match(r"(set|reset)\s+((session|local)\s+)?(role|session\s+authorization)\b", sqls[1].strip(), re.I):
            self.other_user = kind != "same" and not re.match(r"reset\b|.*\b(none|default)$", sqls[1].strip(), re.I | re.S)
        words = words_of(sqls[1])
        names = words & self.objects
        prepared = re.match(r"prepare\s+(\w+)", sqls[1], re.I)
        if prepared:
            names |= {prepared[1].lower(), "pg_prepared_statements"}
        setting = re.match(r"set\s+(?:session\s+|local\s+)?(\w+)\s*(?:=|to\b)", sqls[1], re.I)
        if setting:
            names.add(setting[1].lower())
        if kind not in ("same", "refused", "ordered"):
            # What \gset found on one side only is a variable that nobody set on the other.
            unset = {match[0] for match in VARIABLE.finditer(sqls[0])} - {match[0] for match in VARIABLE.finditer(sqls[1])}
            if self.other_user or unset or self.reads_unlike(sqls[1]):
                kind = "after"
            elif any(script in (name, f"{name}:{line}") and sqls[1].startswith(begin) for script, begin in self.known):
                kind = "known"
        if changes and (kind in ("refused", "fails", "accepts", "wrong", "slow", "crash") or kind == "after" and differs(ours, theirs)):
            # What it made or changed is not the same from here on, nor what is made of it.
            if re.search(r"\b(rule|insert|update|delete|merge|copy)\b", sqls[1], re.I):
                names = self.with_behind(names)
            # With a type goes that of its arrays, and what has a name that nobody said (a range's multirange, a key's index).
            self.unlike |= names | {f"_{name}" for name in names} | (self.objects - before) | catalogs_of(sqls[1])
        self.verdicts.append(Verdict(kind, name, line, sqls[1], shown(ours), shown(theirs)))
        # A transaction that failed on one side alone is ended on both, or all that follows in it would differ.
        if self.ours.client.status != self.theirs.client.status and b"E" in (self.ours.client.status, self.theirs.client.status):
            for side in self.sides:
                side.run("ROLLBACK", None)
            self.unlike |= names
        return ours, theirs

    def judge(self, ours, theirs, sql):
        # PostgreSQL's connection ends where a statement ends it.
        lost = isinstance(ours, Lost), isinstance(theirs, Lost)
        if any(lost):
            return {(True, False): "crash", (False, True): "accepts", (True, True): "same"}[lost]
        failed, expected = last_failure(ours), last_failure(theirs)
        if failed and failed.sqlstate == "57014" and not (expected and expected.sqlstate == "57014"):
            return "slow"
        if failed and expected:
            if failed.sqlstate == expected.sqlstate:
                return "same"
            return "refused" if failed.sqlstate == "0A000" else "code"
        if failed:
            return "refused" if failed.sqlstate == "0A000" else "fails"
        if expected:
            return "accepts"
        if re.match(r"explain\b", sql, re.I) and not re.search(r"analyze", sql, re.I):
            return "same"
        kinds = [compare(mine, other, sql) for mine, other in zip(ours, theirs)]
        if len(ours) != len(theirs):
            return "shape"
        return max(kinds, key=KINDS.index, default="same")


def catalogs_of(sql):
    """The system relations that a definition writes, of those that scripts read whole."""
    found = set()
    for kind, names in CATALOGS.items():
        if re.match(rf"(create|alter|drop|import|comment\s+on)\s+(or\s+replace\s+)?({kind})\b".replace("user mapping", r"user\s+mapping"), sql.strip(), re.I):
            found |= set(names.split())
    return found


@dataclasses.dataclass
class Branch:
    skipped: bool
    taken: bool

    def __bool__(self):
        return self.skipped


def expand_line(text, variables):
    return VARIABLE.sub(lambda match: expand(reference(match), variables), text)


def split_arguments(text, variables):
    """Words of a backslash command, those in single quotes without them."""
    found = re.findall(r"""'((?:[^']|'')*)'|(:'\w+'|:"\w+"|:\w+)|([^\s']+)""", text)
    return [quoted.replace("''", "'") if not (variable or word) else expand_line(variable, variables) if variable else word
            for quoted, variable, word in found]


def last_failure(found):
    return found[-1] if found and isinstance(found[-1], Failure) else None


def compare(ours, theirs, sql):
    if not (isinstance(ours, Result) and isinstance(theirs, Result)):
        return "same" if type(ours) is type(theirs) else "shape"
    if collections.Counter(ours.rows) != collections.Counter(theirs.rows):
        return "wrong"
    # Oids of users' types are each server's own.
    types = lambda result: [(name, oid if oid < 16384 else None) for name, oid in result.columns]
    if types(ours) != types(theirs) or ours.tag != theirs.tag:
        return "shape"
    if ours.rows != theirs.rows:
        return "ordered" if not re.search(r"order\s+by", sql, re.I) else "wrong"
    return "same"


def differs(ours, theirs):
    """Whether it did another thing on the two: it failed on one, or says that it changed other rows, or so many."""
    if isinstance(ours, Lost) or isinstance(theirs, Lost) or (last_failure(ours) is None) != (last_failure(theirs) is None):
        return True
    did = lambda found: [(one.tag, one.rows) for one in found if isinstance(one, Result)]
    return did(ours) != did(theirs)


def words_of(sql):
    return set(re.findall(r"[a-z_][a-z_0-9$]*", sql.lower()))


def pattern_of(operator, literal):
    """What LIKE finds, or a regular expression that begins with ^; None of those that find nearly everything."""
    if len(re.findall(r"[A-Za-z0-9]", literal)) < 3:
        return None
    try:
        if operator == "~":
            return re.compile(literal) if literal.startswith("^") else None
        parts = re.findall(r"\\.|.", literal, re.S)
        meaning = {"%": ".*", "_": "."}
        return re.compile("".join(meaning.get(part) or re.escape(part[-1]) for part in parts) + "$", re.S)
    except re.error:
        return None


def shown(found):
    if isinstance(found, Lost):
        return f"lost: {found}"
    parts = []
    for one in found:
        if isinstance(one, Failure):
            parts.append(f"{one.sqlstate}: {one.message}")
        else:
            rows = ["|".join("NULL" if value is None else value.decode(errors="replace") for value in row) for row in one.rows[:40]]
            columns = ", ".join(f"{name}:{oid}" for name, oid in one.columns)
            parts.append("\n".join([f"{one.tag} ({columns})", *rows]))
    return "\n".join(parts)


def totals(verdicts):
    counted = collections.Counter(verdict.kind for verdict in verdicts)
    return {kind: counted[kind] for kind in KINDS}
