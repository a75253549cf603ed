"""Edits of a program's text that leave everything else as it is: comments, line breaks, the author's order.

The spans of the syntax tree give the places to cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dsl.diagnostics import ProgramError
from dsl.ir import Span
from dsl.syntax import parse
from dsl.tree import ClauseNode, ParamNode, ReturnNode, StageNode, head_of


class Source:
    """A text, its tree (None if it does not parse) and its stages by name. Each edit returns the whole new text."""

    def __init__(self, text: str):
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        try:
            self.tree = parse(text)
        except ProgramError:
            self.tree = None
        items = self.tree.items if self.tree else ()
        self.stages = {i.name.text: i for i in items if isinstance(i, StageNode)}

    # ---- places ----

    def offset(self, line: int, col: int) -> int:
        start = self.starts[min(line, len(self.starts)) - 1] if line > 0 else 0
        return min(len(self.text), start + max(0, col - 1))

    def place(self, offset: int) -> tuple[int, int]:
        line = next(i for i in range(len(self.starts) - 1, -1, -1) if self.starts[i] <= offset)
        return line + 1, offset - self.starts[line] + 1

    def ends(self, span: Span) -> tuple[int, int]:
        return self.offset(span.line, span.col), self.offset(span.end_line, span.end_col)

    def at(self, span: Span) -> str:
        first, last = self.ends(span)
        return self.text[first:last]

    def stage_of(self, span: Span) -> StageNode | None:
        """The stage that contains a place, or the stage that a name in `return` refers to."""
        at = self.offset(span.line, span.col)
        for stage in self.stages.values():
            if self.ends(stage.span)[0] <= at < self._end(stage):
                return stage
        for item in self.tree.items if self.tree else ():
            if isinstance(item, ReturnNode) and span in [n.span for n in item.names]:
                name = next(n.text for n in item.names if n.span == span)
                return next((s for s in self.stages.values() if name == s.name.text or name in _parts(s)), None)
        return None

    def result_of(self, span: Span) -> Span | None:
        """The type after -> of a name in `return`."""
        for item in self.tree.items:
            if isinstance(item, ReturnNode):
                places = [n.span for n in item.names]
                if span in places and places.index(span) < len(self.tree.results):
                    return self.tree.results[places.index(span)].span
        return None

    @staticmethod
    def word_of(item) -> Span | None:
        """The place of the value of `arch`, `launch` or `guard`."""
        head = head_of(item)
        return head[1].span if head else None

    def extent(self, clause: ClauseNode) -> Span:
        k, v = clause.keyword.span, clause.span
        return Span(k.line, k.col, v.end_line, v.end_col)

    def _blank(self, at: int) -> int:
        """The offset after spaces and comments."""
        return re.compile(r"(?:\s|#[^\n]*)*").match(self.text, at).end()

    def _end(self, stage: StageNode) -> int:
        """The offset after the stage's closing brace, or after its operands if it has no block."""
        at = self.ends(stage.span)[1]
        last = max([at, *(self.ends(c.span)[1] for c in stage.clauses)])
        close = self._blank(last)
        if not stage.clauses:
            if self.text[close : close + 1] != "{":
                return at
            close = self._blank(close + 1)
        return close + 1 if self.text[close : close + 1] == "}" else last

    # ---- edits; each returns a whole text ----

    def replace(self, span: Span, text: str) -> str:
        first, last = self.ends(span)
        return self.text[:first] + text + self.text[last:]

    def _insert(self, at: int, text: str) -> str:
        return self.text[:at] + text + self.text[at:]

    def _cut(self, first: int, last: int) -> str:
        """The text without a range, and without the line if nothing else is on it."""
        line = self.text.rfind("\n", 0, first) + 1
        rest = re.compile(r"[ \t]*(\n|\Z)").match(self.text, last)
        if not self.text[line:first].strip() and rest:
            return self.text[:line] + self.text[rest.end() :]
        before, after = self.text[:first].rstrip(" \t"), self.text[last:]
        if before.endswith("{") and after.lstrip(" \t")[:1] != "\n":
            after = after.lstrip(" \t")
        return before + ("" if after[:1].isspace() else " ") + after

    def with_clauses(self, stage: StageNode, clauses: Iterable[tuple[str, str]]) -> str:
        """The text with clauses set to values.

        A clause that the stage has is changed in place. A new clause is inserted at the start of the block, or before
        the epilogue for `store`.
        """
        present = {c.keyword.text: c for c in stage.clauses}
        edits: list[tuple[int, int, str]] = []
        added = []
        for word, value in clauses:
            if word in present:
                if value:
                    edits.append((*self.ends(present[word].span), value))
            else:
                added.append(f"{word} {value}".strip())
        if added:
            line = "  ".join(added)
            at = self.ends(stage.span)[1]
            brace = self._blank(at)
            if stage.clauses:
                last = stage.clauses[-1] if stage.clauses[-1].keyword.text == "epilogue" else stage.clauses[0]
                before = (last if added[0].startswith("store") else stage.clauses[0]).keyword.span
                first = self.offset(before.line, before.col)
                own = not self.text[self.text.rfind("\n", 0, first) + 1 : first].strip()
                indent = "\n" + " " * (before.col - 1) if own else "  "
                edits.append((first, first, indent.join(added) + indent))
            elif self.text[brace : brace + 1] == "{":
                edits.append((brace + 1, brace + 1, f" {line} "))
            else:
                edits.append((at, at, f" {{ {line} }}"))
        text = self.text
        for first, last, new in sorted(edits, reverse=True):
            text = text[:first] + new + text[last:]
        return text

    def without_clauses(self, stage: StageNode, words: set[str]) -> str:
        return self.without(stage, [c for c in stage.clauses if c.keyword.text in words])

    def without(self, stage: StageNode, clauses: Sequence[ClauseNode]) -> str:
        source = self
        for first, last in sorted((self.ends(self.extent(c)) for c in clauses), reverse=True):
            source = Source(source._cut(first, last))
        return source.text

    def without_stage(self, stage: StageNode) -> str:
        return self._cut(self.ends(stage.span)[0], self._end(stage))

    def without_param(self, param: ParamNode) -> str:
        first, last = self.ends(param.name.span)[0], self.ends(param.type.span)[1]
        comma = self._blank(last)
        if self.text[comma : comma + 1] == ",":
            return self.text[:first] + self.text[comma + 1 :].lstrip(" ")
        return re.sub(r",\s*\Z", "", self.text[:first]) + self.text[last:]

    def without_head(self, item, then: str | None = None) -> str:
        """The text without an `arch`, `launch` or `guard` line, and with the new first line `then` if given."""
        last = self.ends(self.word_of(item))[1]
        word = head_of(item)[0]
        source = Source(self._cut(self.text.rfind(word, 0, self.ends(self.word_of(item))[0]), last))
        return source.into_program(then) if then else source.text

    def into_program(self, line: str) -> str:
        """The text with a line inserted before the first item."""
        results = self.ends(self.tree.results[-1].span)[1] if self.tree else 0
        at = self.text.find("{", results) + 1
        return self._insert(at, f"\n  {line}" if at else "")

    def before(self, item: StageNode | ReturnNode, line: str) -> str:
        first = self.ends(item.span)[0]
        start = self.text.rfind("\n", 0, first) + 1
        indent = self.text[start:first]
        return self._insert(first, f"{line}\n{indent if not indent.strip() else '  '}")

    def before_return(self, line: str) -> str:
        """The text with a stage before `return`, or before the end if nothing is returned."""
        for item in self.tree.items:
            if isinstance(item, ReturnNode):
                return self.before(item, line)
        return self.before_end(line)

    def before_end(self, line: str) -> str:
        at = self.ends(self.tree.end)[0]
        own = not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip()
        return self._insert(at, f"  {line}\n" if own else f" {line} ")


def _parts(stage: StageNode) -> list[str]:
    return [c.value.name.text for c in stage.clauses if c.keyword.text == "also"]
