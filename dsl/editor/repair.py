"""A rejection's help as an edit of the text: tried, and offered only where the program it leads to passes there.

The help of a diagnostic is written for a person (`tile 256x208x64`, ``did you mean `gelu`?``, `leave it out`). Each
way out that it names is made a text; one is offered when `check` finds the mistake gone and no other in its place.
So an editor's button never makes a program worse, whatever the words of the help.
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

# Each try is a check, so that all repairs of a text together have as many as its length leaves: 24 of a short
# program, 2 of one of 8 KiB, none of a longer one.
MAX_CHARS = 8_192
MAX_TRIES = 24
WORK = 20_000  # characters checked in all
MAX_STEPS = 3  # one mistake may hide behind another at the same place
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
    """Put `text` in the place of `span`. `title`: what that does, in a few words: `use tile 256x208x64`."""

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
    """A repair of each diagnostic that `check` gave for the text, or None; the first ones where there are many."""
    tries = _Tries(min(MAX_TRIES, WORK // max(1, len(text))) if len(text) <= MAX_CHARS else 0)
    source = Source(text) if tries.left else None
    return [_repair(source, d, diagnostics, tries) if source and tries.left > 0 else None for d in diagnostics]


class _Tries:
    """How often the text may still be checked."""

    def __init__(self, left: int):
        self.left = left

    def check(self, text: str) -> tuple[Diagnostic, ...] | None:
        self.left -= 1
        return check(text).diagnostics if self.left >= 0 else None


def _repair(source: Source, wrong: Diagnostic, found: Sequence[Diagnostic], tries: _Tries) -> Repair | None:
    text, second = source.text, None
    for title, made in _ways(source, wrong):
        for step in range(MAX_STEPS):
            after = tries.check(made)
            if after is None:
                return second
            new = _new(after, found, wrong)
            if not new:
                return _edit(title, text, made)
            if step == 0 and title.startswith(_WORDS) and _goes_on(made, wrong, new):
                return _edit(title, text, made)  # what a word put right brings to light is another matter
            if step == 0 and second is None and _elsewhere(made, wrong, new):
                second = _edit(title, text, made)  # and so is what lies elsewhere
            more = next(((t, m) for t, m in _ways(Source(made), new[0]) if not t.startswith(("->", "declare"))), None)
            if more is None:
                break
            title, made = f"{title}, {more[0]}", more[1]
    return second


def _new(after: Sequence[Diagnostic], found: Sequence[Diagnostic], wrong: Diagnostic) -> list[Diagnostic]:
    """Of the mistakes after a repair, those that were not there beside `wrong`: a code more often than before."""
    left = Counter(d.code for d in found)
    left[wrong.code] -= 1
    new = []
    for d in after:
        left[d.code] -= 1
        if left[d.code] < 0 or _what(d) == _what(wrong):
            new.append(d)
    return new


def _elsewhere(made: str, wrong: Diagnostic, new: Sequence[Diagnostic]) -> bool:
    """Whether new mistakes are no part of what was repaired: another stage's, or a promise after -> now false."""
    source = Source(made)
    here = source.stage_of(wrong.span) if source.tree else None
    return here is not None and all(
        d.code == "E110" or (d.code < "E4" and source.stage_of(d.span) not in (None, here)) for d in new
    )


def _goes_on(made: str, wrong: Diagnostic, new: Sequence[Diagnostic]) -> bool:
    """Whether the text is a program now, or is read further than before."""
    if _what(wrong) in map(_what, new):
        first = new[0].span
        return wrong.code == "E001" and (first.line, first.col) > (wrong.span.line, wrong.span.col)
    return Source(made).tree is not None or new[0].span.line >= wrong.span.line


def _what(d: Diagnostic) -> tuple[str, str]:
    return d.code, d.message


def _edit(title: str, old: str, new: str) -> Repair:
    """The one stretch in which the texts differ."""
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - first
    last = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    at = Source(old)
    end = len(old) - last
    title = title if title.startswith(_VERBS) else f"use {title}"
    return Repair(title, Span(*at.place(first), *at.place(end)), new[first : len(new) - last])


# ---- the ways out that a help names, as (title, text) ----

Way = tuple[str, str]


def _ways(source: Source, d: Diagnostic) -> Iterator[Way]:
    if not d.help or not d.span.line:
        return
    for words in re.split(r", or |; ", d.help):
        for title, made in _of_words(source, d, words.strip()):
            if made != source.text:
                yield title, made


def _of_words(source: Source, d: Diagnostic, words: str) -> Iterator[Way]:
    here = source.at(d.span)
    if meant := _MEANT.match(words):
        verb, word = ("write", meant[1]) if words.startswith("did") else ("use", meant[1] or meant[2])
        if first := _NAME.match(here):  # of `bais[n]` the name alone
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
            made = Source(source.with_clauses(stage, _groups(block[1])))
            yield f"{word[1]} {{{block[1]}}}", made.replace(stage.op.span, word[1])
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
        for said in dict.fromkeys((words, _ASIDE.sub("", words), " ".join(words.split(" ")[:2]).rstrip(","))):
            yield said, source.with_clauses(stage, _groups(said))


def _structural(source: Source, d: Diagnostic, words: str) -> Iterator[Way]:
    """What stands outside of the clauses: types, arch, operands, a stage more, the return."""
    here = source.at(d.span)
    if words.startswith("-> ") and (span := source.result_of(d.span)):
        yield words, source.replace(span, words[3:])
    elif declared := re.match(r"declare (\w+): (.+)", words):
        for p in source.tree.params:
            if p.name.text == declared[1]:
                yield words, source.replace(p.type.span, declared[2])
    elif words.startswith("arch "):
        heads = [i.name.span for i in source.tree.items if isinstance(i, ArchNode)]
        made = source.replace(heads[0], words[5:]) if heads else source.into_program(words)
        yield words, made
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
                made = Source(source.replace(operand.name.span, first[1]))
                yield f"{first[1]} = {first[2]}", made.before(stage, f"{first[1]} = {first[2]}")
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
    """Both operands of a product padded along K by transforms above it (which of them is a weight is not known)."""
    types, _ = partial(source.text)
    lines: dict[str, str] = {}  # {transform: the name that it gives}
    made = source
    for i, operand in reversed(list(enumerate(stage.operands[:2]))):
        t = types.get(operand.name.text)
        if t is None or len(t.shape) < 2:
            return source.text
        shape = list(t.shape)
        shape[-1 if operand.transposed == bool(i) else -2] = depth
        line = f"transform({operand.name.text}) {{ pad {'x'.join(map(str, shape))} }}"
        name = lines.setdefault(line, operand.name.text + "_" * (1 + sum(f"({operand.name.text})" in x for x in lines)))
        made = Source(made.replace(operand.name.span, name))
    for line, name in reversed(lines.items()):
        made = Source(made.before(made.stages[stage.name.text], f"{name} = {line}"))
    return made.text


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


def _groups(said: str) -> list[tuple[str, str]]:
    """[(clause, value)] of clauses as a help writes them, two spaces apart or each on its own."""
    found: list[tuple[str, str]] = []
    for word in said.split():
        if word in _CLAUSES and not (found and not found[-1][1] and found[-1][0] not in ("pairs", "keepdim")):
            found.append((word, ""))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {word}".strip())
    return found
