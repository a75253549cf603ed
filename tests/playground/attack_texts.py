"""Worst cases of regular expressions: which patterns the web process holds, and texts that a backtracking one reads in
more than linear time."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as c
from re import _parser

SIZE = 64 << 10
CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
FILLER = "a"


def filled(head: str, unit: str, tail: str, size: int = SIZE) -> str:
    return head + unit * max(1, (size - len(head) - len(tail)) // len(unit)) + tail


# ---- the patterns ----


def patterns(modules: list[str]) -> dict[tuple[str, int, bool], str]:
    """{(pattern, flags, searched): module} of everything that these modules compile: as a value of a module, at any
    depth of its containers, or by a call of `re` in its source. `searched`: whether it may be looked for at every place
    of a text, and not at one alone. Raises ValueError for a call whose pattern is not visible."""
    collected: dict[tuple[str, int, bool], str] = {}
    loaded = {name: sys.modules.get(name) or import_module(name) for name in modules}
    trees = {}
    for name, module in loaded.items():
        if (path := getattr(module, "__file__", "") or "").endswith(".py"):
            source = Path(path).read_text(encoding="utf-8")
            if re.search(r"\bre\s*\.", source):  # few modules name `re`, and parsing all of them takes 4 s
                trees[name] = ast.parse(source)
    for name, module in loaded.items():
        for value in _inner(list(vars(module).values()), 4):
            if isinstance(value.pattern, str):
                collected.setdefault((value.pattern, value.flags & ~re.UNICODE, True), name)
        for called in _called(trees[name], module) if name in trees else ():
            collected.setdefault(called, name)
    return collected


def _inner(values: list, depth: int) -> Iterator[re.Pattern]:
    for value in values:
        if isinstance(value, re.Pattern):
            yield value
        elif depth and isinstance(value, dict):
            yield from _inner([*value.values()], depth - 1)
        elif depth and isinstance(value, list | tuple | set | frozenset):
            yield from _inner(list(value), depth - 1)


def _called(tree: ast.Module, module) -> Iterator[tuple[str, int, bool]]:
    """(pattern, flags, searched) of the calls of `re`, except for those that give a module a value. A value that a
    pattern is formatted with counts as the letter a."""
    values = {id(n.value) for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign)}
    once = {  # re.compile(...).match(...)
        id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in ("match", "fullmatch")
    }
    texts: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    texts.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Tuple):
            texts.setdefault(node.target.id, []).extend(node.iter.elts)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.args):
            continue
        if id(node) in values:
            continue
        flags = 0
        for argument in [*node.args[1:], *(k.value for k in node.keywords if k.arg == "flags")]:
            for part in ast.walk(argument):
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "re":
                    flags |= int(getattr(re, part.attr, 0)) if isinstance(getattr(re, part.attr, 0), int) else 0
        first = node.args[0]
        names = [first] if not isinstance(first, ast.Name) else texts.get(first.id, [])
        visible = [text for text in map(_text, names) if text is not None]
        if not visible and not (isinstance(first, ast.Name) and isinstance(vars(module).get(first.id), re.Pattern)):
            raise ValueError(f"{module.__name__} line {node.lineno}: the pattern is not visible; name it in the module")
        searched = node.func.attr not in ("match", "fullmatch") and id(node) not in once
        yield from ((text, flags, searched) for text in visible)


def _text(node: ast.expr) -> str | None:
    """The pattern of an expression of constants and formatted texts."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else _number_or_letter(v, node) for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    return None


def _number_or_letter(value: ast.expr, text: ast.JoinedStr) -> str:
    at = text.values.index(value)
    before = text.values[at - 1].value if at and isinstance(text.values[at - 1], ast.Constant) else ""
    return "9" if before.endswith("{") else FILLER


# ---- the texts ----


def attacks(pattern: str, flags: int) -> list[str]:
    """64 KiB texts against a pattern: each beginning of a text that it matches, repeated, and each with its last
    characters repeated, always with an end that fails."""
    texts: list[str] = []
    for example in _examples(_parser.parse(pattern, flags))[:12]:
        ends = sorted({*range(1, min(len(example), 10) + 1), len(example)}) if example else []
        for k in ends:
            texts.append(filled("", example[:k], "\x01"))
            texts.append(filled(example[: k - 1], example[k - 1], "\x01"))
    return list(dict.fromkeys(texts))


def _examples(parsed) -> list[str]:
    """Some short texts that a parsed pattern matches, one for each branch at least."""
    texts = [""]
    for op, value in parsed:
        texts = [a + b for a in texts[:6] for b in _one(op, value)[:6]]
    return texts


def _one(op, value) -> list[str]:
    if op is c.LITERAL:
        return [chr(value)]
    if op is c.NOT_LITERAL:
        return ["b" if chr(value) == "a" else "a"]
    if op is c.ANY:
        return ["a"]
    if op is c.IN:
        return _of_class(value)
    if op is c.BRANCH:
        return [text for branch in value[1] for text in _examples(branch)[:2]]
    if op is c.SUBPATTERN:
        return _examples(value[3])
    if op is c.ATOMIC_GROUP:
        return _examples(value)
    if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
        low, _, inner = value
        return [text * max(1, min(low, 40)) for text in _examples(inner)]
    return [""]  # places, groups that look around, references


def _of_class(members) -> list[str]:
    if members and members[0][0] is c.NEGATE:
        matcher = re.compile(_class_text(members))
        return [ch for ch in 'a \n("#1' if matcher.match(ch)][:3] or ["é"]
    texts = []
    for op, value in members:
        if op is c.LITERAL:
            texts.append(chr(value))
        elif op is c.RANGE:
            texts.append(chr(value[0]))
        elif op is c.CATEGORY:
            matcher = re.compile(
                {c.CATEGORY_SPACE: r"\s", c.CATEGORY_DIGIT: r"\d", c.CATEGORY_WORD: r"\w"}.get(value, r"\S")
            )
            texts += [ch for ch in " \na1(" if matcher.match(ch)][:2]
    return texts[:3] or ["a"]


def _class_text(members) -> str:
    names = {
        c.CATEGORY_SPACE: r"\s", c.CATEGORY_NOT_SPACE: r"\S", c.CATEGORY_DIGIT: r"\d", c.CATEGORY_NOT_DIGIT: r"\D",
        c.CATEGORY_WORD: r"\w", c.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    text = "".join(
        re.escape(chr(v)) if op is c.LITERAL
        else f"{re.escape(chr(v[0]))}-{re.escape(chr(v[1]))}" if op is c.RANGE
        else names.get(v, "") if op is c.CATEGORY else ""
        for op, v in members
    )  # fmt: skip
    return f"[^{text}]"
