"""Turn the fixes of a diagnostic into an edit of the text, checked before it is offered.

A diagnostic carries the fixes that its help names as data (dsl.fixes). Each fix becomes a candidate text. A candidate
is offered if `check` no longer reports the mistake and reports no new one, so the button of an editor never makes a
program worse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dsl import fixes
from dsl.check.program import check, partial
from dsl.diagnostics import Diagnostic
from dsl.editor.edits import Source
from dsl.ir import Span
from dsl.tree import ArchNode, StageNode, head_of

# Each try is one check of the whole text, so the repairs of a text share a number of tries that falls with its length:
# 24 for a short program, 2 for one of 8 KiB, none for a longer one.
MAX_CHARS = 8_192
MAX_TRIES = 24
WORK = 20_000  # characters that all tries together may check
MAX_STEPS = 3  # edits for one mistake; a second mistake may appear at the same place
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Repair:
    """Replace `span` by `text`. `title` describes the edit: `use tile 256x208x64`."""

    title: str
    span: Span
    text: str

    def apply(self, source: str) -> str:
        at = Source(source)
        first, last = at.offset(self.span.line, self.span.col), at.offset(self.span.end_line, self.span.end_col)
        return source[:first] + self.text + source[last:]

    def to_json(self) -> dict:
        s = self.span
        place = {"line": s.line, "col": s.col, "end_line": s.end_line, "end_col": s.end_col}
        return {"title": self.title, **place, "text": self.text}


def repairs(text: str, diagnostics: Sequence[Diagnostic]) -> list[Repair | None]:
    """A repair, or None, for each diagnostic of the text. If there are many, only the first ones get repairs."""
    tries = _Tries(min(MAX_TRIES, WORK // max(1, len(text))) if len(text) <= MAX_CHARS else 0)
    source = Source(text) if tries.left else None
    return [_repair(source, d, diagnostics, tries) if source and tries.left > 0 else None for d in diagnostics]


class _Tries:
    """Checks of a candidate text; `left` counts down how many are still allowed."""

    def __init__(self, left: int):
        self.left = left

    def check(self, text: str) -> tuple[Diagnostic, ...] | None:
        self.left -= 1
        return check(text).diagnostics if self.left >= 0 else None


@dataclass(frozen=True)
class _Way:
    """A candidate: the whole text after a fix. `verb` and `what` describe the edit: `use`, `tile 256x208x64`."""

    verb: str
    what: str
    text: str
    fix: fixes.Fix

    @property
    def title(self) -> str:
        return f"{self.verb} {self.what}"

    @property
    def added(self) -> str:
        """The description after that of another edit."""
        return self.what if self.verb == "use" else self.title


def _repair(source: Source, wrong: Diagnostic, before: Sequence[Diagnostic], tries: _Tries) -> Repair | None:
    text, second = source.text, None
    for way in _ways(source, wrong):
        title, edited = way.title, way.text
        for step in range(MAX_STEPS):
            after = tries.check(edited)
            if after is None:
                return second
            new = _new(after, before, wrong)
            if not new:
                return _edit(title, text, edited)
            if step == 0 and isinstance(way.fix, _OF_WORDS) and _goes_on(edited, wrong, new):
                return _edit(title, text, edited)  # errors that a corrected word reveals are separate mistakes
            if step == 0 and second is None and _elsewhere(edited, wrong, new):
                second = _edit(title, text, edited)  # errors elsewhere are separate mistakes too
            more = next((w for w in _ways(Source(edited), new[0]) if not isinstance(w.fix, _OF_TYPES)), None)
            if more is None:
                break
            title, edited = f"{title}, {more.added}", more.text
    return second


def _new(after: Sequence[Diagnostic], before: Sequence[Diagnostic], wrong: Diagnostic) -> list[Diagnostic]:
    """The mistakes that a repair of `wrong` adds: codes that are more frequent than in `before` without `wrong`."""
    left = Counter(d.code for d in before)
    left[wrong.code] -= 1
    new = []
    for d in after:
        left[d.code] -= 1
        if left[d.code] < 0 or d.mistake == wrong.mistake:
            new.append(d)
    return new


def _elsewhere(edited: str, wrong: Diagnostic, new: Sequence[Diagnostic]) -> bool:
    """Return True if all new mistakes are in other stages, or are a declared result type that no longer matches."""
    source = Source(edited)
    here = source.stage_of(wrong.span) if source.tree else None
    return here is not None and all(
        d.code == "E110" or (d.code < "E4" and source.stage_of(d.span) not in (None, here)) for d in new
    )


def _goes_on(edited: str, wrong: Diagnostic, new: Sequence[Diagnostic]) -> bool:
    """Return True if the text parses now, or parses further than before."""
    if wrong.mistake in [d.mistake for d in new]:
        first = new[0].span
        return wrong.code == "E001" and (first.line, first.col) > (wrong.span.line, wrong.span.col)
    return Source(edited).tree is not None or new[0].span.line >= wrong.span.line


def _edit(title: str, old: str, new: str) -> Repair:
    """The repair that replaces the range in which the texts differ."""
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - first
    last = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    at = Source(old)
    end = len(old) - last
    return Repair(title, Span(*at.place(first), *at.place(end)), new[first : len(new) - last])


# ---- the candidates of a fix ----

# A corrected word, after which the check reads further.
_OF_WORDS = (fixes.Respell, fixes.DeleteToken)
# What a program declares follows from its stages, so a declaration is never a step of another repair.
_OF_TYPES = (fixes.DeclareResult, fixes.DeclareParameter)


def _ways(source: Source, d: Diagnostic) -> Iterator[_Way]:
    """The candidates of a diagnostic in the order of its fixes, without those that change nothing."""
    if not d.span.line:
        return
    for fix in d.fixes:
        if source.tree is None and not isinstance(fix, (fixes.Rewrite, *_OF_WORDS)):
            continue
        for verb, what, text in _edits(source, d.span, fix):
            if text != source.text:
                yield _Way(verb, what, text, fix)


Edits = Iterator[tuple[str, str, str]]  # the verb and the object of the edit's title, and the edited text


def _edits(source: Source, mark: Span, fix: fixes.Fix) -> Edits:
    """The edits that a fix may mean at a mark; usually one, none if the text lacks what the fix concerns."""
    match fix:
        case fixes.Rewrite(text, title):
            yield "use", title or text, source.replace(mark, text)
        case fixes.Respell(word):
            here = source.at(mark)
            if (name := _NAME.match(here)) and name.end() < len(here):  # for example the name in `bais[n]`
                yield "write", word, source.replace(mark, word + here[name.end() :])
            yield "write", word, source.replace(mark, word)
        case fixes.DeleteToken():
            yield "leave", f"out the `{source.at(mark)}`", source.replace(mark, "")
        case fixes.SetClauses(clauses, name):
            if stage := _stage(source, mark, name):
                yield "use", fix.text, source.with_clauses(stage, clauses)
        case fixes.ChangeStage(word, clauses, left):
            if stage := source.stage_of(mark):
                edited = Source(source.with_clauses(stage, clauses))
                edited = Source(edited.without_clauses(edited.stage_of(mark), set(left)))
                yield "use", f"{word} {{ {fixes.written(clauses)} }}", edited.replace(stage.op.span, word)
        case fixes.LeaveClauses(words, name):
            if stage := _stage(source, mark, name):
                present = [w for w in words if w in [c.keyword.text for c in stage.clauses]]
                yield "leave", f"{', '.join(present)} out", source.without_clauses(stage, set(present))
        case fixes.LeaveOut():
            yield from _left_out(source, mark)
        case fixes.TransformFirst(name):
            yield from _transformed(source, mark, fix)
        case fixes.InTwo():
            yield from _in_two(source, mark)
        case fixes.PadDepth(depth):
            if stage := source.stage_of(mark):
                yield "pad", "K with zeros", _padded(source, stage, depth)
        case _:
            yield from _of_program(source, mark, fix)


def _stage(source: Source, mark: Span, name: str | None) -> StageNode | None:
    """The stage with this name, or the stage at the mark if there is no name."""
    return source.stages.get(name) if name else source.stage_of(mark)


def _of_program(source: Source, mark: Span, fix: fixes.Fix) -> Edits:
    """Edits outside the stages: types, arch, the lines before the stages, the return."""
    items = source.tree.items
    match fix:
        case fixes.DeclareResult(declared):
            if span := source.result_of(mark):
                yield "use", f"-> {declared}", source.replace(span, declared)
        case fixes.ReturnView(view):
            name = source.at(mark)
            line = f"{name}_ = transform({name}) {{ view {view} }}"
            edited = Source(source.replace(mark, f"{name}_"))
            yield "return", line, edited.before_return(line)
        case fixes.DeclareParameter(name, declared):
            for p in source.tree.params:
                if p.name.text == name:
                    yield "declare", f"{name}: {declared}", source.replace(p.type.span, declared)
        case fixes.SetArch(name):
            heads = [i.name.span for i in items if isinstance(i, ArchNode)]
            edited = source.replace(heads[0], name) if heads else source.into_program(f"arch {name}")
            yield "use", f"arch {name}", edited
        case fixes.MoveUp():
            for item in [i for i in items if source.word_of(i) == mark]:
                line = f"{head_of(item)[0]} {source.at(mark)}"
                yield "move", f"{line} up", source.without_head(item, then=line)
        case fixes.ReturnLast():
            if source.stages:
                name = list(source.stages)[-1]
                yield "return", name, source.before_end(f"return {name}")


def _transformed(source: Source, mark: Span, fix: fixes.TransformFirst) -> Edits:
    """The operand of the marked stage read through a transform above the stage."""
    stage = source.stage_of(mark)
    for operand in stage.operands if stage else ():
        if operand.name.text == fix.name:
            edited = Source(source.replace(operand.name.span, fix.result))
            yield "use", fix.line, edited.before(stage, fix.line)


def _in_two(source: Source, mark: Span) -> Edits:
    """The transform at the mark as two: the clauses before the mark above, the marked one and the rest below."""
    stage = source.stage_of(mark)
    clauses = stage.clauses if stage else ()
    at = next((i for i, c in enumerate(clauses) if mark in (c.keyword.span, c.span)), 0)
    first = [c for c in clauses[:at] if c.keyword.text != "prepack"]
    if not first:
        return
    name = stage.name.text
    pack = ["prepack"] if any(c.keyword.text == "prepack" for c in clauses) else []
    block = "  ".join([*(source.at(source.extent(c)) for c in first), *pack])
    line = f"{name}_ = transform({', '.join(o.name.text for o in stage.operands)}) {{ {block} }}"
    edited = Source(source.without(stage, first))
    operands = [o.name.span for o in stage.operands]
    inside = Span(operands[0].line, operands[0].col, operands[-1].end_line, operands[-1].end_col)
    edited = Source(edited.replace(inside, f"{name}_"))
    yield "write", line, edited.before(edited.stages[name], line)


def _padded(source: Source, stage: StageNode, depth: int) -> str:
    """The text with both operands of a product padded along K by transforms above it."""
    types, _ = partial(source.text)
    lines: dict[str, str] = {}  # transform -> the name of its result
    edited = source
    for i, operand in reversed(list(enumerate(stage.operands[:2]))):
        t = types.get(operand.name.text)
        if t is None or len(t.shape) < 2:
            return source.text
        shape = list(t.shape)
        shape[-1 if operand.transposed == bool(i) else -2] = depth
        line = f"transform({operand.name.text}) {{ pad {'x'.join(map(str, shape))} }}"
        name = lines.setdefault(line, operand.name.text + "_" * (1 + sum(f"({operand.name.text})" in x for x in lines)))
        edited = Source(edited.replace(operand.name.span, name))
    for line, name in reversed(lines.items()):
        edited = Source(edited.before(edited.stages[stage.name.text], f"{name} = {line}"))
    return edited.text


def _left_out(source: Source, mark: Span) -> Edits:
    """The text without the clause, the stage, the parameter or the line that the mark names."""
    if stage := source.stage_of(mark):
        for clause in stage.clauses:
            part = getattr(clause.value, "name", clause.keyword).span
            if mark in (clause.span, clause.keyword.span, part):
                yield "leave", f"{source.at(source.extent(clause))[:40]} out", source.without(stage, [clause])
        if mark == stage.name.span:
            yield "leave", f"{stage.name.text} out", source.without_stage(stage)
        return
    for p in source.tree.params:
        if mark == p.name.span:
            yield "leave", f"{p.name.text} out", source.without_param(p)
    for item in source.tree.items:
        if source.word_of(item) == mark:
            yield "leave", f"{source.at(mark)} out", source.without_head(item)
