"""Turn the help of a diagnostic into an edit of the text, checked before it is offered.

The help is written for a person (`tile 256x208x64`, ``did you mean `gelu`?``, `leave it out`). Each fix that it names
becomes a candidate text. A candidate is offered if `check` no longer reports the mistake and reports no new one, so the
button of an editor never makes a program worse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dsl.check.program import check, partial
from dsl.diagnostics import Diagnostic
from dsl.editor.edits import Source
from dsl.editor.vocabulary import ENTRIES
from dsl.ir import Span
from dsl.tree import ArchNode, StageNode, head_of

# Each try is one check of the whole text, so the repairs of a text share a number of tries that falls with its length:
# 24 for a short program, 2 for one of 8 KiB, none for a longer one.
MAX_CHARS = 8_192
MAX_TRIES = 24
WORK = 20_000  # characters that all tries together may check
MAX_STEPS = 3  # edits for one mistake; a second mistake may appear at the same place
_CLAUSES = {word for kind, word in ENTRIES if kind == "clause"}
_ASIDE = re.compile(r"\s+(?:with|first|changes|does|for|alone)\b.*")
_MEANT = re.compile(r"(?:did you mean|for example) `?([\w()]+)`?\??$|write (\w+(?:\[[\w, ]+\])?)(?: alone)?$")
_VERBS = ("pad ", "write ", "leave ", "return ", "move ", "declare ", "use ")
_WORDS = ("write ", "leave out the `")
_DEPTH = re.compile(r"pad K from [\d,]+ to ([\d,]+) with zeros")
_BEFORE = re.compile(r"(\w+) = (transform\((\w+)\).*\}) first")
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


def _repair(source: Source, wrong: Diagnostic, before: Sequence[Diagnostic], tries: _Tries) -> Repair | None:
    text, second = source.text, None
    for title, edited in _ways(source, wrong):
        for step in range(MAX_STEPS):
            after = tries.check(edited)
            if after is None:
                return second
            new = _new(after, before, wrong)
            if not new:
                return _edit(title, text, edited)
            if step == 0 and title.startswith(_WORDS) and _goes_on(edited, wrong, new):
                return _edit(title, text, edited)  # errors that a corrected word reveals are separate mistakes
            if step == 0 and second is None and _elsewhere(edited, wrong, new):
                second = _edit(title, text, edited)  # errors elsewhere are separate mistakes too
            more = next(((t, m) for t, m in _ways(Source(edited), new[0]) if not t.startswith(("->", "declare"))), None)
            if more is None:
                break
            title, edited = f"{title}, {more[0]}", more[1]
    return second


def _new(after: Sequence[Diagnostic], before: Sequence[Diagnostic], wrong: Diagnostic) -> list[Diagnostic]:
    """The mistakes that a repair of `wrong` adds: codes that are more frequent than in `before` without `wrong`."""
    left = Counter(d.code for d in before)
    left[wrong.code] -= 1
    new = []
    for d in after:
        left[d.code] -= 1
        if left[d.code] < 0 or _identity(d) == _identity(wrong):
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
    if _identity(wrong) in map(_identity, new):
        first = new[0].span
        return wrong.code == "E001" and (first.line, first.col) > (wrong.span.line, wrong.span.col)
    return Source(edited).tree is not None or new[0].span.line >= wrong.span.line


def _identity(d: Diagnostic) -> tuple[str, str]:
    return d.code, d.message


def _edit(title: str, old: str, new: str) -> Repair:
    """The repair that replaces the range in which the texts differ."""
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - first
    last = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    at = Source(old)
    end = len(old) - last
    title = title if title.startswith(_VERBS) else f"use {title}"
    return Repair(title, Span(*at.place(first), *at.place(end)), new[first : len(new) - last])


# ---- the fixes that a help names, as (title, text) ----

Way = tuple[str, str]


def _ways(source: Source, d: Diagnostic) -> Iterator[Way]:
    if not d.help or not d.span.line:
        return
    for words in re.split(r", or |; ", d.help):
        for title, edited in _of_words(source, d, words.strip()):
            if edited != source.text:
                yield title, edited


def _of_words(source: Source, d: Diagnostic, words: str) -> Iterator[Way]:
    here = source.at(d.span)
    if suggestion := _MEANT.match(words):
        verb, word = ("write", suggestion[1]) if words.startswith("did") else ("use", suggestion[1] or suggestion[2])
        if first := _NAME.match(here):  # for example the name in `bais[n]`
            yield f"{verb} {word}", source.replace(d.span, word + here[first.end() :])
        yield f"{verb} {word}", source.replace(d.span, word)
        return
    if words.startswith("leave out the `"):
        yield words, source.replace(d.span, "")
        return
    if re.fullmatch(r"the \w+ is acc", words):
        yield "acc", source.replace(d.span, "acc")
        return
    if source.tree is None:
        return
    yield from _structural(source, d, words)
    if words.startswith("leave") or words.endswith("changes nothing"):
        yield from _left_out(source, d, words)
        return
    if block := re.search(r"\{(.*)\}", words):
        stage = source.stage_of(d.span)
        if stage and (word := re.match(r"`(\w+)` does it", words)):
            edited = Source(source.with_clauses(stage, _groups(block[1])))
            yield f"{word[1]} {{{block[1]}}}", edited.replace(stage.op.span, word[1])
        elif stage:
            yield block[1].strip(), source.with_clauses(stage, _groups(block[1]))
        return
    named = re.search(r"\bin (\w+)$", words)
    stage = source.stages.get(named[1]) if named else source.stage_of(d.span)
    words = re.sub(r"\s+in \w+$", "", words)
    if inside := re.search(r"\((\w+ [^()]+)\)", words):
        words = inside[1]
    words = re.sub(r"^add (\w+) to .*", r"\1", words)
    if stage and words.split(" ")[0] in _CLAUSES:
        for clauses in dict.fromkeys((words, _ASIDE.sub("", words), " ".join(words.split(" ")[:2]).rstrip(","))):
            yield clauses, source.with_clauses(stage, _groups(clauses))


def _structural(source: Source, d: Diagnostic, words: str) -> Iterator[Way]:
    """Fixes outside the clauses: types, arch, operands, an additional stage, the return."""
    here = source.at(d.span)
    if words.startswith("-> ") and (span := source.result_of(d.span)):
        yield words, source.replace(span, words[3:])
    elif declared := re.match(r"declare (\w+): (.+)", words):
        for p in source.tree.params:
            if p.name.text == declared[1]:
                yield words, source.replace(p.type.span, declared[2])
    elif words.startswith("arch "):
        heads = [i.name.span for i in source.tree.items if isinstance(i, ArchNode)]
        edited = source.replace(heads[0], words[5:]) if heads else source.into_program(words)
        yield words, edited
    elif words == "move it to the first line":
        item = next((i for i in source.tree.items if source.word_of(i) == d.span), None)
        if item is not None:
            line = f"{head_of(item)[0]} {here}"
            yield f"move {line} up", source.without_head(item, then=line)
    elif words in ("launch graph", "guard f32"):
        yield words, source.replace(d.span, words.split()[1])
    elif (first := _BEFORE.fullmatch(words)) and (stage := source.stage_of(d.span)):
        for operand in stage.operands:
            if operand.name.text == first[3]:
                edited = Source(source.replace(operand.name.span, first[1]))
                yield f"{first[1]} = {first[2]}", edited.before(stage, f"{first[1]} = {first[2]}")
    elif (depth := _DEPTH.match(words)) and (stage := source.stage_of(d.span)):
        yield "pad K with zeros", _padded(source, stage, int(depth[1].replace(",", "")))
    elif re.fullmatch(r"\w+\[[\w, ]+\]", words) and (load := source.around(d.span, r"\w+\s*\[[^\[\]]*\]")):
        yield words, source.replace(load, words)
    elif re.search(rf"\b{re.escape(here)}\.T\b", words) and _NAME.fullmatch(here):
        yield f"{here}.T", source.replace(d.span, f"{here}.T")
    elif words.startswith("add: return") and source.stages:
        name = list(source.stages)[-1]
        yield f"return {name}", source.before_end(f"return {name}")


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


def _left_out(source: Source, d: Diagnostic, words: str) -> Iterator[Way]:
    stage = source.stage_of(d.span)
    named = [w for w in re.findall(r"\w+", words) if w in _CLAUSES]
    if of := re.search(r"\bof (\w+) to auto", words):
        stage = source.stages.get(of[1])
        named = [w for w in named if stage and any(c.keyword.text == w for c in stage.clauses)]
    if stage and named:
        yield f"leave {', '.join(named)} out", source.without_clauses(stage, set(named))
    elif stage:
        for clause in stage.clauses:
            part = getattr(clause.value, "name", clause.keyword).span
            if d.span in (clause.span, clause.keyword.span, part):
                yield f"leave {source.at(source.extent(clause))[:40]} out", source.without(stage, [clause])
        if d.span == stage.name.span:
            yield f"leave {stage.name.text} out", source.without_stage(stage)
    else:
        for p in source.tree.params:
            if d.span == p.name.span:
                yield f"leave {p.name.text} out", source.without_param(p)
        for item in source.tree.items:
            if source.word_of(item) == d.span:
                yield f"leave {source.at(d.span)} out", source.without_head(item)


def _groups(text: str) -> list[tuple[str, str]]:
    """The (clause, value) pairs of clauses in a help text."""
    groups: list[tuple[str, str]] = []
    for word in text.split():
        if word in _CLAUSES and not (groups and not groups[-1][1] and groups[-1][0] not in ("pairs", "keepdim")):
            groups.append((word, ""))
        elif groups:
            groups[-1] = (groups[-1][0], f"{groups[-1][1]} {word}".strip())
    return groups
