"""SELECT in all its forms, over the tables, views and WITH queries that there are.

An answer is determined as a multiset: rows are limited, numbered or picked only under an order without ties (`Scope.key`, or all columns and their texts).
"""

import dataclasses

from .expressions import Relation, Scope, between
from .tree import Choice, Clause, Expr, Items, Node, sql_name
from .values import LOOSE, UNORDERED, literal

JOINS = ["join", "join", "left join", "left join", "right join", "full join", "cross join"]


@dataclasses.dataclass
class Query:
    node: Node
    types: list
    # The rows come in an order that leaves nothing open.
    ordered: bool = False


class Queries:
    """`tables` gives what FROM may name: objects with `name`, `columns` as (name, type) and `key`."""

    def __init__(self, random, expressions, tables):
        self.random, self.expressions, self.tables = random, expressions, tables
        self.aliases, self.ctes = 0, []

    def chance(self, probability):
        return self.random.random() < probability

    def alias(self, prefix="q"):
        self.aliases += 1
        return f"{prefix}{self.aliases}"

    # FROM

    def source(self, outer, depth, only_keyed=False):
        """One item of FROM: its node and its Relation."""
        roll = self.random.random()
        tables = [table for table in self.tables() if table.key or not only_keyed]
        if tables and (roll < 0.6 or depth <= 0 or only_keyed):
            return self.table(self.random.choice(tables))
        if roll < 0.7 and self.ctes:
            name, types = self.random.choice(self.ctes)
            alias = self.alias()
            return Node(f"{name} as {alias}"), Relation([(f"{alias}.c{at}", type) for at, type in enumerate(types)])
        alias = self.alias()
        if roll < 0.8:
            # What a set-returning function has got to give is small.
            low, high = self.random.randrange(-2, 3), self.random.randrange(0, 6)
            return Node(f"generate_series({low}, {high}) as {alias}(c0)"), Relation([(f"{alias}.c0", "int4")], [f"{alias}.c0"])
        if roll < 0.86:
            types = [self.expressions.type() for _ in range(self.random.randrange(1, 4))]
            rows = [Node("(", *between([literal(self.random, type) for type in types]), ")") for _ in range(self.random.randrange(1, 5))]
            return self.named(Node("(values ", Items(rows), ")"), types, alias)
        if roll < 0.9:
            element = self.random.choice(("int4", "text"))
            array = self.expressions.expr("_" + element, Scope([], outer), 1, True)
            return Node("unnest(", array, f") with ordinality as {alias}(c0, c1)"), Relation([(f"{alias}.c0", element), (f"{alias}.c1", "int8")], [f"{alias}.c1"])
        types = [self.expressions.type() for _ in range(self.random.randrange(1, 4))]
        return self.named(Node("(", self.select(types, outer, depth - 1).node, ")"), types, alias)

    def named(self, node, types, alias):
        columns = [f"c{at}" for at in range(len(types))]
        return Node(node, f" as {alias}({', '.join(columns)})"), Relation([(f"{alias}.{name}", type) for name, type in zip(columns, types)])

    def table(self, table):
        alias = self.alias("t")
        return Node(f"{table.name} as {alias}"), Relation([(f"{alias}.{name}", type) for name, type in table.columns], table.key and [f"{alias}.{name}" for name in table.key])

    def from_clause(self, outer, depth, only_keyed=False):
        """FROM with joins: its node, and the scope that it makes."""
        node, relation = self.source(outer, depth, only_keyed)
        relations = [relation]
        while len(relations) < 4 and self.chance(0.45):
            lateral = not only_keyed and depth > 0 and self.chance(0.12)
            if lateral:
                alias, types = self.alias(), [self.expressions.type() for _ in range(2)]
                inner, relation = self.named(Node("lateral (", self.select(types, Scope(relations, outer), depth - 1).node, ")"), types, alias)
                kind = self.random.choice(("cross join", "left join"))
                condition = " on true" if kind == "left join" else ""
            else:
                inner, relation = self.source(outer, depth - 1, only_keyed)
                kind = self.random.choice(JOINS)
                if kind == "cross join" and len(relations) > 1:
                    kind = "join"
                condition = "" if kind == "cross join" else self.join_condition(relations, relation, outer, kind)
            node = Node(node, Clause(f" {kind} ", inner, *([condition] if condition else [])))
            relations.append(relation)
        return Node(" from ", node), Scope(relations, outer)

    def join_condition(self, relations, relation, outer, kind):
        """An equality of two columns where types allow, with more beside it; FULL joins have only the equality, as PostgreSQL can do no other."""
        pairs = [(left, right) for one in relations for left, type in one.columns for right, other in relation.columns if type == other and type not in UNORDERED]
        equal = Expr("bool", "({} = {})".format(*self.random.choice(pairs))) if pairs else None
        if kind == "full join":
            return Node(" on ", equal or "false")
        scope = Scope(relations + [relation], outer)
        if not equal or self.chance(0.15):
            return Node(" on ", self.expressions.expr("bool", scope, 2, True))
        if self.chance(0.3):
            return Node(" on ", Expr("bool", "(", equal, " and ", self.expressions.expr("bool", scope, 1, True), ")"))
        return Node(" on ", equal)

    # SELECT

    def select(self, types, outer=None, depth=2, careful=True):
        """A query that gives columns of these types; its rows have no order."""
        roll = self.random.random()
        if depth > 0 and roll < 0.12:
            return self.set_operation(types, outer, depth, careful)
        if roll < 0.15:
            rows = [Node("(", *between([self.expressions.expr(type, Scope([], outer), 1, careful) for type in types]), ")") for _ in range(self.random.randrange(1, 4))]
            return Query(Node("values ", Items(rows)), types)
        if roll < 0.35:
            return self.grouped(types, outer, depth, careful)
        if roll < 0.45 and not set(types) & (UNORDERED | LOOSE):
            return self.distinct(types, outer, depth, careful)
        if roll < 0.6:
            return self.windowed(types, outer, depth, careful)
        return self.plain(types, outer, depth, careful)

    def targets(self, types, scope, depth, careful):
        return Node(*between([Node(self.expressions.expr(type, scope, depth, careful), f" as c{at}") for at, type in enumerate(types)]))

    def where(self, scope, depth, probability=0.6):
        return Clause(" where ", self.expressions.expr("bool", scope, depth, True)) if self.chance(probability) else Node()

    def plain(self, types, outer, depth, careful):
        source, scope = self.from_clause(outer, depth) if self.chance(0.95) else (Node(), Scope([], outer))
        node = Node("select ", self.targets(types, scope, depth + 1, careful), source, self.where(scope, depth + 1))
        if scope.key() and self.chance(0.2):
            return Query(Node(node, " order by ", self.expressions.order(scope), self.limit()), types, True)
        return Query(node, types)

    def limit(self):
        """Only behind an order without ties. The limit goes together with what it cuts off, or an offset alone would be left in another order."""
        roll = self.random.random()
        if roll < 0.5:
            return Clause(f" limit {self.random.randrange(0, 12)}")
        return Clause(f" offset {self.random.randrange(0, 4)}") if roll < 0.6 else Clause(f" limit {self.random.randrange(0, 9)} offset {self.random.randrange(0, 5)}") if roll < 0.75 else Node()

    def distinct(self, types, outer, depth, careful):
        source, scope = self.from_clause(outer, depth, only_keyed=self.chance(0.5))
        if scope.key() and self.chance(0.4):
            on = [text for text, type in scope.typed() if type not in UNORDERED | LOOSE]
            on = self.random.sample(on, min(len(on), self.random.randrange(1, 3)))
            order = Node(*between(on), ", ", self.expressions.order(scope))
            return Query(Node("select distinct on (", *between(on), ") ", self.targets(types, scope, depth, careful), source, self.where(scope, depth), " order by ", order), types, False)
        return Query(Node("select distinct ", self.targets(types, scope, depth, careful), source, self.where(scope, depth)), types)

    def windowed(self, types, outer, depth, careful):
        source, scope = self.from_clause(outer, depth, only_keyed=self.chance(0.7))
        over = dataclasses.replace(scope, windows=True)
        return Query(Node("select ", self.targets(types, over, depth, careful), source, self.where(scope, depth)), types)

    def grouped(self, types, outer, depth, careful):
        source, scope = self.from_clause(outer, depth)
        usable = [(text, type) for text, type in scope.typed() if type not in UNORDERED | LOOSE]
        keys = self.random.sample(usable, min(len(usable), self.random.choice((0, 1, 1, 2, 2, 3))))
        keys = [(Expr(type, text), type) for text, type in keys]
        if keys and self.chance(0.3):
            type = self.expressions.key_type()
            keys.append((Expr(type, str(self.expressions.expr(type, scope, 1, True))), type))
        # A constant cannot stand in GROUP BY, where it is a column's number.
        keys = [(key, type) for key, type in keys if "." in str(key)]
        visible = Scope([Relation([(str(key), type) for key, type in keys])], outer, aggregated=scope)
        groups = Node()
        if keys:
            texts = [str(key) for key, _ in keys]
            roll = self.random.random()
            if roll < 0.7 or len(keys) < 2:
                groups = Node(" group by ", Items(texts))
            elif roll < 0.8:
                groups = Node(" group by rollup (", Items(texts), ")")
            elif roll < 0.9:
                groups = Node(" group by cube (", Items(texts), ")")
            else:
                groups = Node(" group by grouping sets (", Items([f"({texts[0]})", f"({', '.join(texts)})", "()"]), ")")
        if " (" in str(groups)[:26] and self.chance(0.6):
            visible.relations[0].columns.append((f"grouping({', '.join(texts)})", "int4"))
        having = Clause(" having ", self.expressions.expr("bool", visible, 2, True)) if self.chance(0.25) else Node()
        return Query(Node("select ", self.targets(types, visible, 2, careful), source, self.where(scope, 1), groups, having), types)

    def set_operation(self, types, outer, depth, careful):
        kinds = ["union all"] * 2 if set(types) & (UNORDERED | LOOSE) else ["union", "union all", "intersect", "except", "intersect all", "except all"]
        arms = [self.select(types, outer, depth - 1, careful).node for _ in range(2 if self.chance(0.8) else 3)]
        node = Node("(", arms[0], ")")
        for arm in arms[1:]:
            node = Node(node, Clause(f" {self.random.choice(kinds)} (", arm, ")"))
        return Query(node, types)

    # Queries in expressions

    def scalar(self, type, scope, depth, careful, deeper):
        if self.chance(0.5) and self.expressions.catalog.aggregates[type]:
            source, inner = self.from_clause(scope, depth - 2)
            call = self.expressions.aggregate(type, Scope([], scope, aggregated=inner), 1, careful)
            return Expr(type, "(select ", call, source, self.where(inner, 1), ")") if call else None
        source, inner = self.from_clause(scope, depth - 2, only_keyed=True)
        if not inner.key():
            return None
        return Expr(type, "(select ", self.expressions.expr(type, inner, 1, careful), source, self.where(inner, 1), " order by ", self.expressions.order(inner), " limit 1)")

    def membership(self, its, scope, depth, careful, deeper):
        source, inner = self.from_clause(scope, depth - 2)
        condition = self.where(inner, 1)
        roll = self.random.random()
        if roll < 0.4:
            return Expr("bool", self.random.choice(("exists", "not exists", "exists")), "(select 1", source, condition, ")")
        compare = self.random.choice((" in (", " in (", " not in (", " = any (", " <> all (", " < any (", " >= all ("))
        return Expr("bool", "(", deeper(its), compare, "select ", self.expressions.expr(its, inner, 1, careful), source, condition, "))")

    # Whole statements

    def strict(self):
        """One expression, which may fail: nothing is left open. Also whether there are several rows, of which another could be the first to fail."""
        queries, self.expressions.queries, self.expressions.edges = self.expressions.queries, None, 0.4
        type = self.random.choice(sorted(self.expressions.catalog.functions)) if self.chance(0.4) else self.expressions.type()
        tables, several = [table for table in self.tables() if table.key], False
        if tables and self.chance(0.75):
            table = self.random.choice(tables)
            source, relation = self.table(table)
            node = Node("select ", self.expressions.expr(type, Scope([relation]), 2), " as c0 from ", source)
            several = self.chance(0.5)
            if not several:
                node = Node(node, f" where {relation.key[0]} = (select min({table.key[0]}) + {self.random.randrange(12)} from {table.name})")
        else:
            node = Node("select ", self.expressions.expr(type, Scope([]), 3), " as c0")
        self.expressions.queries, self.expressions.edges = queries, 0.15
        return Query(node, [type]), several

    def statement(self, careful):
        """A query as clients send it: with WITH queries, an order over everything, a limit."""
        self.aliases, self.ctes = 0, []
        withs = []
        if self.chance(0.2):
            for _ in range(self.random.randrange(1, 3)):
                name = self.alias("w")
                query, types = self.recursive(name) if self.chance(0.3) else self.common(name)
                withs.append(query)
                self.ctes.append((name, types))
        types = [self.expressions.type() for _ in range(self.random.randrange(1, 5))]
        query = self.select(types, None, self.random.choice((0, 1, 1, 2)), careful)
        if not query.ordered and self.chance(0.35):
            query = self.in_order(query)
        if withs:
            recursive = "recursive " if any("(n, c1)" in str(query) for query in withs) else ""
            query = dataclasses.replace(query, node=Node(f"with {recursive}", Items(withs), " ", query.node))
        if query.ordered is False and self.chance(0.02):
            query = dataclasses.replace(query, node=Node("select count(*) from (", query.node, ") as x"), types=["int8"])
        return query

    def common(self, name):
        types = [self.expressions.type() for _ in range(self.random.randrange(1, 4))]
        query = self.select(types, None, 1)
        hint = self.random.choice(("", "", "materialized ", "not materialized "))
        return Node(f"{name}({', '.join(f'c{at}' for at in range(len(types)))}) as ", Choice("", hint), "(", query.node, ")"), types

    def recursive(self, name):
        """Counts up to a bound, with a second column that goes along."""
        type = self.random.choice(("int8", "text", "numeric"))
        scope = Scope([Relation([("r.n", "int4"), ("r.c1", type)])])
        union = self.random.choice(("union all", "union"))
        step = self.expressions.expr(type, scope, 1, True)
        bound = self.random.randrange(1, 8)
        tables = [table for table in self.tables() if table.key]
        join = ""
        if tables and self.chance(0.4):
            table = self.random.choice(tables)
            join = f" join {table.name} as x on x.{table.key[0]} = r.n"
        made = Node(f"{name}(c0, c1) as (with recursive r(n, c1) as (select 1, ", literal(self.random, type), f" {union} select r.n + 1, ", Expr(type, "(", step, f")::{sql_name(type)}"),
                    f" from r{join} where r.n < {bound}) select n, c1 from r)")
        return made, ["int4", type]

    def in_order(self, query):
        """All its columns, and their texts for those that are equal and do not look the same, in ORDER BY."""
        names = [f"c{at}" for at in range(len(query.types))]
        keys = [f"{name}::text" if type in UNORDERED | LOOSE else name for name, type in zip(names, query.types)]
        order = [f"{key}{self.random.choice(('', '', ' desc', ' nulls first', ' desc nulls last'))}" for key in keys] + [f"{name}::text" for name in names]
        return Query(Node("select * from (", query.node, f") as x({', '.join(names)}) order by ", *between(order), self.limit()), query.types, True)
