"""Cuts psql scripts into statements and backslash commands, by psql's lexical rules.

A statement keeps its references to variables, because each server may give them other values. What a script does not
need to be cut (comments) is dropped.
"""

import dataclasses
import re

WORD = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z_0-9$\x80-\U0010ffff]*")
DOLLAR = re.compile(r"\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z_0-9\x80-\U0010ffff]*)?\$")
VARIABLE = re.compile(r""":(?:'(?P<literal>\w+)'|"(?P<identifier>\w+)"|(?P<plain>\w+))""")
# Commands that send the statement in front of them.
SENDING = {"g", "gx", "gset", "gexec", "crosstabview"}


@dataclasses.dataclass
class Variable:
    name: str
    quote: str
    text: str


@dataclasses.dataclass
class Statement:
    pieces: list
    line: int
    # The backslash command that sent it, and its arguments; "" where a semicolon did.
    sent_by: str = ""
    arguments: str = ""

    def text(self, variables):
        return "".join(piece if isinstance(piece, str) else expand(piece, variables) for piece in self.pieces).strip()


@dataclasses.dataclass
class Command:
    name: str
    arguments: str
    line: int


def reference(match):
    """What a match of VARIABLE names."""
    quote = "'" if match["literal"] else '"' if match["identifier"] else ""
    return Variable(match["literal"] or match["identifier"] or match["plain"], quote, match[0])


def expand(variable, variables):
    value = variables.get(variable.name)
    if value is None:
        return variable.text
    if variable.quote == "'":
        return "'" + value.replace("'", "''") + "'"
    if variable.quote == '"':
        return '"' + value.replace('"', '""') + '"'
    return value


class Script:
    """Iterated over, it gives Statements and Commands; `data()` takes the lines up to `\\.` that follow what was given last."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def line(self):
        return self.text.count("\n", 0, self.at) + 1

    def rest_of_line(self):
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        taken, self.at = self.text[self.at:end], end
        return taken

    def data(self):
        self.rest_of_line()
        self.at += 1
        end = re.compile(r"^\\\.[ \t]*$", re.M).search(self.text, self.at)
        if not end:
            taken, self.at = self.text[self.at:], len(self.text)
        else:
            taken, self.at = self.text[self.at:end.start()], end.end()
        return taken.encode()

    def __iter__(self):
        while True:
            found = self.next()
            if found is None:
                return
            yield from found

    def next(self):
        pieces, words, depth, blocks, begun = [], [], 0, 0, None
        text = self.text

        def add(upto):
            pieces.append(text[self.at:upto])
            self.at = upto

        while self.at < len(text):
            c = text[self.at]
            if not c.isspace() and begun is None and not text.startswith(("--", "/*", "\\"), self.at):
                begun = self.line()
            if text.startswith("--", self.at):
                self.rest_of_line()
            elif text.startswith("/*", self.at):
                self.at = end_of_comment(text, self.at)
                pieces.append(" ")
            elif c == "'":
                escapes = bool(words) and words[-1] in ("e", "E") and self.at > 0 and text[self.at - 1] in "eE"
                add(end_of_string(text, self.at, escapes))
            elif c == '"':
                end = text.find('"', self.at + 1)
                add(len(text) if end < 0 else end + 1)
            elif c == "$" and (match := DOLLAR.match(text, self.at)) and not (self.at and re.match(r"[\w$]", text[self.at - 1])):
                end = text.find(match[0], match.end())
                add(len(text) if end < 0 else end + len(match[0]))
            elif match := WORD.match(text, self.at):
                word = match[0].lower()
                words.append(word)
                if depth == 0 and is_routine(words):
                    blocks += (word == "begin") + (word == "case" and blocks > 0) - (word == "end" and blocks > 0)
                add(match.end())
            elif c in "()":
                depth = max(0, depth + (1 if c == "(" else -1))
                add(self.at + 1)
            elif c == ";" and depth == 0 and blocks == 0:
                self.at += 1
                statement = Statement(pieces, begun or self.line())
                return [statement] if statement.text({}) else []
            elif text.startswith("::", self.at) or text.startswith(":=", self.at):
                add(self.at + 2)
            elif c == ":" and (match := VARIABLE.match(text, self.at)):
                pieces.append(reference(match))
                self.at = match.end()
            elif text.startswith("\\;", self.at):
                pieces.append(";")
                self.at += 2
            elif c == "\\":
                found = self.command(pieces, begun)
                if found is not None:
                    return found
            else:
                add(self.at + 1)
        statement = Statement(pieces, begun or self.line())
        return [statement] if statement.text({}) else None

    def command(self, pieces, begun):
        """A backslash command: what it ends, or None if the statement around it goes on."""
        line = self.line()
        self.at += 1
        name = re.compile(r"[^\s\\]*").match(self.text, self.at)[0]
        self.at += len(name)
        arguments = self.rest_of_line().strip()
        statement = Statement(pieces, begun or line, name, arguments)
        if name in SENDING:
            # Without a statement it sends the last one again; nobody's answer depends on it.
            return [statement] if statement.text({}) else []
        if not statement.text({}):
            return [Command(name, arguments, line)]
        return None


def is_routine(words):
    rest = words[1:]
    if rest[:2] == ["or", "replace"]:
        rest = rest[2:]
    return words[0] == "create" and rest[:1] in (["function"], ["procedure"])


def end_of_comment(text, at):
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def end_of_string(text, at, escapes):
    at += 1
    while at < len(text):
        if escapes and text[at] == "\\":
            at += 2
        elif text[at] == "'":
            if not text.startswith("''", at):
                return at + 1
            at += 2
        else:
            at += 1
    return len(text)
