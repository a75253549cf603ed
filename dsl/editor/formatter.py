"""Format a program and preserve its comments, for `python -m dsl format` and the editor's Format button.

The words are those of the canonical text (`dsl.printer`), so the meaning cannot change. The layout follows the
examples: a long header is broken into lines, and a short block stays on one line. A comment stays with the item below
it, or with the item before it on its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dsl.ir import Program
from dsl.printer import canonical_stages
from dsl.syntax import parse
from dsl.tree import ProgramNode, ReturnNode, StageNode, head_of

WIDTH = 100
SHORT = 3  # clauses that may stand on the stage's own line
_MARKS = re.compile(r"#[^\n]*|[{}]")

Key = tuple[str, ...]
PROGRAM, OPEN, END = ("program",), ("open",), ("end",)


@dataclass(frozen=True)
class _Comment:
    line: int
    col: int
    text: str
    own: bool  # nothing else is on its line


def formatted(text: str, program: Program) -> str:
    """The formatted `text`. `program` is the result of checking `text`; the formatted text checks to the same one."""
    return "\n".join(_Layout(program, _Remarks(text)).lines()) + "\n"


class _Remarks:
    """The comments of a text by the item that they belong to: on a line above it or beside it ({key: comments})."""

    def __init__(self, text: str):
        self.above: dict[Key, list[str]] = {}
        self.beside: dict[Key, list[str]] = {}
        comments, braces = _scan(text)
        self.places = _places(parse(text), braces) if comments else []
        self.comments = comments

    def settle(self, present: set[Key]) -> None:
        """Assign each comment to a key in `present`; the comments of an item that is not printed go to the next one."""
        places = [(at, key) for at, key in self.places if key in present]
        for c in self.comments:
            before = [key for at, key in self.places if at[0] == c.line and at[1] < c.col]
            if not c.own and before and before[-1] in present:
                self.beside.setdefault(before[-1], []).append(c.text)
                continue
            below = next((key for at, key in places if at > (c.line, c.col)), ("after",))
            self.above.setdefault(below, []).append(c.text)
        for key in [k for k, comments in self.beside.items() if len(comments) > 1]:  # one line holds one comment
            self.above.setdefault(key, []).extend(self.beside.pop(key))

    def on(self, *keys: Key) -> bool:
        return any(k in self.above or k in self.beside for k in keys)


def _scan(text: str) -> tuple[list[_Comment], list[tuple[tuple[int, int], str]]]:
    """The comments, and the braces with their places."""
    comments, braces = [], []
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    line = 0
    for m in _MARKS.finditer(text):
        while line + 1 < len(starts) and starts[line + 1] <= m.start():
            line += 1
        at = (line + 1, m.start() - starts[line] + 1)
        if m.group() in "{}":
            braces.append((at, m.group()))
        else:
            own = not text[starts[line] : m.start()].strip()
            comments.append(_Comment(*at, m.group().rstrip(), own))
    return comments, braces


def _places(tree: ProgramNode, braces: list[tuple[tuple[int, int], str]]) -> list[tuple[tuple[int, int], Key]]:
    """The start of each item that a comment may belong to, in the order of the text."""

    def at(span) -> tuple[int, int]:
        return span.line, span.col

    places = [(at(tree.name.span), PROGRAM), (at(tree.results[0].span), OPEN), (at(tree.end), END)]
    places += [(at(p.name.span), ("param", p.name.text)) for p in tree.params]
    for item in tree.items:
        if head := head_of(item):
            places.append((at(head[1].span), (head[0],)))
        elif isinstance(item, ReturnNode):
            places.append((at(item.span), ("return",)))
        else:
            places += _stage_places(item, braces)
    return sorted(places)


def _stage_places(node: StageNode, braces) -> list[tuple[tuple[int, int], Key]]:
    name, start = node.name.text, (node.span.line, node.span.col)
    places = [(start, ("stage", name))]
    for c in node.clauses:
        word = c.keyword.text
        part = (c.value.name.text,) if word in ("let", "also") else ()
        places.append(((c.keyword.span.line, c.keyword.span.col), ("clause", name, word, *part)))
    end = (node.span.end_line, node.span.end_col)
    after = [(at, sign) for at, sign in braces if at >= end][:2]
    if len(after) == 2 and after[0][1] == "{":
        # If a block ends on the line of its stage, a comment beside it belongs to the stage.
        places.append((after[1][0], ("stage", name) if after[1][0][0] == start[0] else ("close", name)))
    return places


class _Layout:
    def __init__(self, program: Program, remarks: _Remarks):
        self.program, self.remarks = program, remarks
        self.stages = list(canonical_stages(program))
        present = {PROGRAM, OPEN, END, ("return",)} | {("param", p.name) for p in program.params}
        present |= ({("arch",)} if program.arch else set()) | ({("launch",)} if program.graph else set())
        present |= {("guard",)} if program.guard else set()
        for name, _, clauses in self.stages:
            present |= {("stage", name)} | {_key(name, c) for c in clauses} | ({("close", name)} if clauses else set())
        remarks.settle(present)
        self.out: list[str] = []

    def lines(self) -> list[str]:
        p = self.program
        self.header()
        if p.arch:
            self.say(2, f"arch {p.arch}", ("arch",))
        if p.graph:
            self.say(2, "launch graph", ("launch",))
        if p.guard:
            self.say(2, "guard f32", ("guard",))
        for name, head, clauses in self.stages:
            self.stage(name, head, clauses)
        self.say(2, f"return {', '.join(p.results)}", ("return",))
        self.say(0, "}", END)
        return self.out + self.remarks.above.get(("after",), [])

    def say(self, indent: int, line: str, key: Key) -> None:
        pad = " " * indent
        self.out += [pad + c for c in self.remarks.above.get(key, [])]
        self.out.append(pad + line + "".join(f"  {c}" for c in self.remarks.beside.get(key, [])))

    def header(self) -> None:
        p, remarks = self.program, self.remarks
        results = ", ".join(map(str, p.result_types))
        end = f") -> {results if len(p.result_types) == 1 else f'({results})'} {{"
        params = [(f"{x.name}: {x.type}", ("param", x.name)) for x in p.params]
        line = f"program {p.name}({', '.join(text for text, _ in params)}{end}"
        commented = remarks.on(*(key for _, key in params))
        if not commented and len(line) <= WIDTH:
            remarks.above.setdefault(PROGRAM, []).extend(remarks.above.pop(OPEN, []) + remarks.beside.pop(PROGRAM, []))
            self.out += remarks.above[PROGRAM]
            self.out.append(line + "".join(f"  {c}" for c in remarks.beside.get(OPEN, [])))
            return
        self.say(0, f"program {p.name}(", PROGRAM)
        row = ""
        for i, (text, key) in enumerate(params):
            text += "," if i + 1 < len(params) else ""
            if commented:
                self.say(4, text, key)
                continue
            if row and len(row) + len(text) + 5 > WIDTH:
                self.out.append("    " + row)
                row = ""
            row += (" " if row else "") + text
        if row:
            self.out.append("    " + row)
        self.say(0, end, OPEN)

    def stage(self, name: str, head: str, clauses: list[str]) -> None:
        keys = [_key(name, c) for c in clauses]
        line = f"{head} {{ {'  '.join(clauses)} }}" if clauses else head
        if not clauses or (
            len(clauses) <= SHORT and len(line) + 2 <= WIDTH and not self.remarks.on(*keys, ("close", name))
        ):
            self.say(2, line, ("stage", name))
            return
        self.say(2, f"{head} {{", ("stage", name))
        for clause, key in zip(clauses, keys, strict=True):
            self.say(4, clause, key)
        above = self.remarks.above.pop(("close", name), [])
        self.out += ["    " + c for c in above]
        self.say(2, "}", ("close", name))


def _key(stage: str, clause: str) -> Key:
    """The key of a clause as printed: `tile 128x128x64`, `let t = acc`."""
    word, *rest = clause.split(" ", 2)
    return ("clause", stage, word, rest[0]) if word in ("let", "also") else ("clause", stage, word)
