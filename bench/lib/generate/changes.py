"""Statements that change rows, definitions, transactions and the session."""

from .expressions import Relation, Scope, between
from .schema import Column
from .tree import Clause, Expr, Items, Node, sql_name
from .values import literal

SWITCHES = ["enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_hashagg", "enable_sort", "enable_material"]
SETTINGS = {"work_mem": ["'64kB'", "'4MB'"], "plan_cache_mode": ["auto", "force_generic_plan", "force_custom_plan"], "TimeZone": ["'UTC'", "'America/New_York'", "'Asia/Kolkata'"],
            "DateStyle": ["'ISO, MDY'", "'Postgres, DMY'", "'SQL, YMD'", "'German'"], "IntervalStyle": ["postgres", "sql_standard", "iso_8601", "postgres_verbose"], "extra_float_digits": ["1", "0", "-5", "3"],
            "bytea_output": ["hex", "escape"]}


class Changes:
    def __init__(self, random, schema, expressions, queries):
        self.random, self.schema, self.expressions, self.queries = random, schema, expressions, queries

    def chance(self, probability):
        return self.random.random() < probability

    def table(self):
        tables = [table for table in self.schema.tables if not table.view]
        return self.random.choice(tables)

    def statement(self):
        """A change of rows."""
        table = self.table()
        if self.chance(0.06):
            return self.locked(table)
        ways = (self.insert, self.insert, self.insert_query, self.update, self.update, self.delete, self.on_conflict)
        node = self.random.choice(ways)(table)
        return self.inside_with(table, node) if self.chance(0.1) else node

    def inside_with(self, table, node):
        """The change as a WITH query, and what it returns read beside the table as it was before."""
        if " returning " in str(node):
            return node
        name = "u" if str(node).startswith("update") else "d" if str(node).startswith("delete") else table.name
        return Node("with w as (", node, f" returning {name}.id as wid) select w.wid, x.* from w left join {table.name} as x on x.id = w.wid")

    def locked(self, table):
        scope = Scope([Relation([(f"l.{name}", type) for name, type in table.columns])])
        strength = self.random.choice(("update", "share", "no key update", "key share"))
        return Node("select ", self.expressions.expr(self.expressions.type(), scope, 1, True), f", l.id from {table.name} as l", self.queries.where(scope, 2), f" for {strength}{self.random.choice(('', ' nowait', ' skip locked'))}")

    def returning(self, table, alias=None):
        if self.chance(0.65):
            return Node()
        alias = alias or table.name
        scope = Scope([Relation([(f"{alias}.{name}", type) for name, type in table.columns])])
        return Clause(" returning ", Items([self.expressions.expr(self.expressions.type(), scope, 1, True) for _ in range(self.random.randrange(1, 3))] + [f"{alias}.*"] * self.chance(0.3)))

    def insert(self, table):
        return Node(self.schema.insert(table, self.random.randrange(1, 5)), self.returning(table))

    def insert_query(self, table):
        columns = [column for column in table.own if not column.made and column.name != "id"]
        columns = self.random.sample(columns, min(len(columns), self.random.randrange(1, 4)))
        if not columns or any(column.unique for column in columns):
            return self.insert(table)
        source, scope = self.queries.from_clause(None, 1, only_keyed=True)
        if not scope.key():
            return self.insert(table)
        start = table.next_id
        table.next_id += 60
        values = [Expr(column.type, "(", self.expressions.expr(column.type, scope, 1, True), f")::{column.declared}") for column in columns]
        order = self.expressions.order(scope)
        return Node(f"insert into {table.name} (id, {', '.join(column.name for column in columns)}) select {start} + row_number() over (order by {order}), ", *between(values), source,
                    self.queries.where(scope, 1), f" order by {order} limit 12", self.returning(table))

    def on_conflict(self, table):
        if not table.key:
            return self.insert(table)
        node = self.schema.insert(table, self.random.randrange(1, 3))
        # Ids that are taken.
        table.next_id = max(1, table.next_id - 3)
        if self.chance(0.3):
            return Node(node, " on conflict do nothing", self.returning(table))
        sets = self.settable(table)
        if not sets:
            return Node(node, " on conflict (id) do nothing", self.returning(table))
        scope = Scope([Relation([(f"{prefix}.{name}", type) for prefix in (table.name, "excluded") for name, type in table.columns])])
        return Node(node, " on conflict (id) do update set ", self.assignments(sets, scope), Clause(" where ", self.expressions.expr("bool", scope, 1, True)) if self.chance(0.3) else Node(), self.returning(table))

    def settable(self, table):
        return [column for column in table.own if not column.made and not column.unique and column.name != "id"]

    def assignments(self, columns, scope):
        columns = self.random.sample(columns, min(len(columns), self.random.randrange(1, 3)))
        made = []
        for column in columns:
            if column.name == "ref":
                made.append(Node(f"ref = {self.random.choice(('null', 'id', '1', '2'))}" if not any("." in text for text in scope.columns()) else f"ref = {self.random.randrange(1, 9)}"))
            elif self.chance(0.05):
                made.append(Node(f"{column.name} = default"))
            else:
                made.append(Node(f"{column.name} = ", Expr(column.type, "(", self.expressions.expr(column.type, scope, 2, True), f")::{column.declared}")))
        return Items(made)

    def update(self, table):
        columns = self.settable(table)
        if not columns:
            return self.insert(table)
        others = [other for other in self.schema.tables if other.key and other is not table]
        own = Relation([(f"u.{name}", type) for name, type in table.columns])
        if table.key and others and self.chance(0.25):
            other = self.random.choice(others)
            scope = Scope([own, Relation([(f"f.{name}", type) for name, type in other.columns])])
            return Node(f"update {table.name} as u set ", self.assignments(columns, scope), f" from {other.name} as f where u.id = f.{other.key[0]}", Clause(" and ", self.expressions.expr("bool", scope, 1, True)),
                        self.returning(table, "u"))
        scope = Scope([own])
        where = f" where u.id = {self.random.randrange(1, max(2, table.next_id))}" if self.chance(0.3) else self.queries.where(scope, 2, 0.9)
        return Node(f"update {table.name} as u set ", self.assignments(columns, scope), where, self.returning(table, "u"))

    def delete(self, table):
        others = [other for other in self.schema.tables if other is not table]
        scope = Scope([Relation([(f"d.{name}", type) for name, type in table.columns])])
        if others and self.chance(0.3):
            other = self.random.choice(others)
            relation = Relation([(f"o.{name}", type) for name, type in other.columns])
            equal = self.queries.join_condition(scope.relations, relation, None, "full join").parts[1]
            return Node(f"delete from {table.name} as d using {other.name} as o where d.id > 5 and ", equal, self.returning(table, "d"))
        return Node(f"delete from {table.name} as d where d.id % {self.random.randrange(3, 9)} = 0 and ", self.expressions.expr("bool", scope, 1, True), self.returning(table, "d"))

    def definition(self):
        """A change of a definition, and what to do with the model when both servers did it."""
        table = self.table()
        scope = Scope([Relation(table.columns)])
        roll = self.random.randrange(12)
        if roll < 3:
            node, name = self.schema.create_index(table)
            return node, lambda: table.indexes.append(name)
        if roll == 3 and table.indexes:
            name = self.random.choice(table.indexes)
            return Node(f"drop index {name}"), lambda: table.indexes.remove(name)
        if roll == 4:
            node, view = self.schema.create_view(self.queries)
            return node, lambda: self.schema.tables.append(view)
        if roll == 5:
            type = self.schema.column_type()
            column = Column(self.schema.name("n"), type, sql_name(type))
            default = Clause(" default ", literal(self.random, type, 0)) if self.chance(0.5) else Node()
            return Node(f"alter table {table.name} add column {column.name} {column.declared}", default), lambda: table.own.append(column)
        droppable = [column for column in table.own if column.name.startswith(("c", "n")) and column.made != "always"]
        if roll == 6 and len(droppable) > 2:
            column = self.random.choice(droppable)
            return Node(f"alter table {table.name} drop column {column.name}"), lambda: table.own.remove(column)
        if roll == 7 and droppable:
            column = self.random.choice(droppable)
            type = self.schema.column_type()

            def retype():
                column.type, column.declared = type, sql_name(type)
            return Node(f"alter table {table.name} alter column {column.name} type {sql_name(type)} using ", Expr(type, "(", self.expressions.expr(type, scope, 1, True), f")::{sql_name(type)}")), retype
        if roll == 8 and droppable:
            column = self.random.choice(droppable)
            action = self.random.choice((f"set default {literal(self.random, column.type, 0)}", "drop default", "set not null", "drop not null"))
            return Node(f"alter table {table.name} alter column {column.name} {action}"), None
        if roll == 9 and droppable:
            column = self.random.choice(droppable)
            name = self.schema.name("r")

            def rename():
                column.name = name.replace("r", "n")
            return Node(f"alter table {table.name} rename column {column.name} to {name.replace('r', 'n')}"), rename
        if roll == 10:
            return Node(f"alter table {table.name} add constraint {self.schema.name('con')} check (", self.expressions.expr("bool", scope, 1, True), ")", Clause(" not valid") if self.chance(0.3) else ""), None
        return Node(self.random.choice((f"analyze {table.name}", f"vacuum {table.name}", f"truncate {table.name}", f"reindex table {table.name}") if self.chance(0.4) else (f"analyze {table.name}",))), None

    def setting(self):
        if self.chance(0.6):
            return Node(f"set {self.random.choice(SWITCHES)} = {self.random.choice(('on', 'off'))}")
        if self.chance(0.2):
            return Node("reset all")
        name = self.random.choice(sorted(SETTINGS))
        return Node(f"set {name} = {self.random.choice(SETTINGS[name])}")

    def mistaken(self):
        """What fails when it is analyzed: a name that is not there, types that do not meet, a clause in the wrong place."""
        table = self.table()
        column, other = self.random.choice(table.own).name, self.random.choice(table.own).name
        scope = Scope([Relation([(f"m.{name}", type) for name, type in table.columns])])
        expr = lambda: self.expressions.expr(self.expressions.type(), scope, 1, True)
        made = [
            lambda: Node(f"select m.nothing from {table.name} as m"),
            lambda: Node(f"select {column} from nowhere"),
            lambda: Node(f"select {column}, count(*) from {table.name}"),
            lambda: Node("select nosuch(", expr(), f") from {table.name} as m"),
            lambda: Node("select ", expr(), self.random.choice((" + ", " || ", " and ", " % ", " -> ", " @> ", " ~ ", " < ", " = ")), expr(), f" from {table.name} as m"),
            lambda: Node(f"insert into {table.name} ({column}, {other}) values (", expr(), ")"),
            lambda: Node(f"insert into {table.name} ({column}) values (", literal(self.random, self.expressions.type()), ")"),
            lambda: Node(f"update {table.name} set {column} = ", literal(self.random, self.expressions.type()), " where false"),
            lambda: Node("select ", self.random.choice(("abs", "lower", "length", "sum", "max", "date_trunc", "array_length", "upper", "round", "count", "coalesce")), "(", expr(), ", ", expr(), f") from {table.name} as m"),
            lambda: Node(f"select 1 from {table.name} as m where ", expr()),
            lambda: Node(f"select 1 from {table.name} as m where count(*) > 1"),
            lambda: Node("select case when ", expr(), " is null then ", expr(), " else ", expr(), f" end from {table.name} as m"),
            lambda: Node("select ", expr(), " union select ", expr(), f" from {table.name} as m"),
            lambda: Node("select ", expr(), f" from {table.name} as m union select ", expr(), f" from {table.name} as m"),
            lambda: Node("select array[", expr(), ", ", expr(), f"] from {table.name} as m"),
            lambda: Node(f"select * from {table.name} as m order by {self.random.randrange(0, 20)}"),
            lambda: Node("select ", expr(), " in (", expr(), ", ", expr(), f") from {table.name} as m"),
            lambda: Node(f"select m.{column} from {table.name} as m, {table.name} as m"),
            lambda: Node(f"select {column} from {table.name} as a, {table.name} as b"),
            lambda: Node("select (", expr(), f")::{sql_name(self.expressions.type())} from {table.name} as m where false"),
            lambda: Node("select ", expr(), f" from {table.name} as m limit ", literal(self.random, self.expressions.type())),
            lambda: Node(f"select rank() from {table.name}"),
            lambda: Node(f"select sum(count(*)) from {table.name}"),
            lambda: Node(f"create table {table.name} (a int4)"),
            lambda: Node(f"create index on {table.name} (nothing)"),
            lambda: Node(f"drop view {table.name}"),
            lambda: Node(f"alter table {table.name} add column {column} int4"),
            lambda: Node(f"alter table {table.name} drop column nothing"),
            lambda: Node("rollback to nowhere"),
        ]
        return self.random.choice(made)()
