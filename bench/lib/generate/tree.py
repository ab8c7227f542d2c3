"""Statements as trees of text, so that one that fails can be made smaller.

A node's parts are strings and nodes. What a node is says what may stand in its place: an expression gives way to one of the same type
inside it or to a constant, a clause to nothing, a list to one with fewer items.
"""

import re


CONSTANT = re.compile(r"'((?:[^'\\\\]|'')*)'::([a-z0-9]+(?:\[\])?)")


class Node:
    def __init__(self, *parts):
        self.parts = list(parts)

    def __str__(self):
        return "".join(map(str, self.parts))

    def smaller(self):
        """What may stand in this node's place, the smallest first."""
        return []

    def walk(self):
        """(parent, index, node) of every node below this one, outer ones first."""
        for index, part in enumerate(self.parts):
            if isinstance(part, Node):
                yield self, index, part
                yield from part.walk()


class Expr(Node):
    """An expression of a type; its own parts bring their brackets."""

    def __init__(self, type, *parts):
        super().__init__(*parts)
        self.type = type

    def smaller(self):
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return []
        found = [node for _, _, node in self.walk() if isinstance(node, Expr) and node.type == self.type]
        null = Expr(self.type, "true" if self.type == "bool" else f"null::{sql_name(self.type)}")
        return [null, *sorted(found, key=lambda node: len(str(node)))[:6]]


class Clause(Node):
    """A part of a statement that may be left out."""

    def smaller(self):
        return [""]


class Choice(Node):
    """A part of a statement that has a simpler form."""

    def __init__(self, simple, *parts):
        super().__init__(*parts)
        self.simple = simple

    def smaller(self):
        return [self.simple]


class Items(Node):
    """A list; at least one item stays."""

    def __init__(self, items, separator=", "):
        super().__init__(*items)
        self.separator = separator

    def __str__(self):
        return self.separator.join(map(str, self.parts))

    def smaller(self):
        if len(self.parts) < 2:
            return []
        half = len(self.parts) // 2
        found = [self.parts[:half], self.parts[half:]] if half > 1 else []
        found += [self.parts[:at] + self.parts[at + 1:] for at in range(len(self.parts))]
        return [Items(parts, self.separator) for parts in found]


def sql_name(type):
    """As SQL writes a type of the catalog."""
    if type.startswith("_"):
        return sql_name(type[1:]) + "[]"
    return '"char"' if type == "char" else type


def with_parameters(root, random):
    """Makes parameters of up to three of a statement's constants, and gives their values."""
    leaves = [node for _, _, node in root.walk() if isinstance(node, Expr) and len(node.parts) == 1 and (found := CONSTANT.fullmatch(str(node.parts[0])))]
    values = []
    for number, node in enumerate(random.sample(leaves, min(len(leaves), 3)), 1):
        text, type = CONSTANT.fullmatch(node.parts[0]).groups()
        values.append(text.replace("''", "'"))
        node.parts = [f"${number}::{type}"]
    return values


def shrink(root, differs, tries=300):
    """Makes a tree smaller as long as `differs(text)` holds, in place."""
    known, changed = {str(root)}, True
    while changed and tries > 0:
        changed = False
        for parent, index, node in list(root.walk()):
            if index >= len(parent.parts) or parent.parts[index] is not node:
                continue
            for candidate in node.smaller():
                if len(str(candidate)) >= len(str(node)) and not isinstance(candidate, str):
                    continue
                parent.parts[index] = candidate
                text = str(root)
                if tries > 0 and text not in known:
                    tries -= 1
                    known.add(text)
                    if differs(text):
                        changed = True
                        break
                parent.parts[index] = node
            if changed:
                break
    return root
