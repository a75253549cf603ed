"""Parse text to a syntax tree with source spans. `dsl.check.program` decides what the words mean.

`parse` raises ProgramError for any text that is no program, and no other exception. One linear scan checks the limits
on length, tokens and nesting before the LALR parser runs.
"""

from __future__ import annotations

import math
import re
import sys
from functools import lru_cache
from pathlib import Path

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from dsl import foreign_idioms
from dsl.diagnostics import Diagnostic, ProgramError, closest, listing
from dsl.fixes import Rewrite, did_you_mean, help_of
from dsl.functions import COMPARISONS, TABLE
from dsl.ir import Span
from dsl.tree import (
    ArchNode,
    CallNode,
    ClauseNode,
    GuardNode,
    IntNode,
    LaunchNode,
    NumberNode,
    OperandNode,
    ParamNode,
    ParenNode,
    PartNode,
    ProgramNode,
    RefNode,
    ReturnNode,
    StageNode,
    TypeNode,
    Word,
)

__all__ = ["ProgramError", "ProgramNode", "parse"]

MAX_CHARS = 65_536
MAX_TOKENS = 4_096  # a program of 80 products with every choice written out
MAX_DEPTH = 48  # of brackets and of an epilogue's expression tree: later passes recurse over it
MAX_DIGITS = 20  # enough for a float as Python prints it: 0.0005422996120143402
MAX_ERRORS = 8


def _span(first, last=None) -> Span:
    """The span from a token or node to another, or of the first alone."""
    a, b = first, last if last is not None else first
    line, col = (a.line, a.column) if isinstance(a, Token) else (a.span.line, a.span.col)
    end = (b.end_line, b.end_column) if isinstance(b, Token) else (b.span.end_line, b.span.end_col)
    return Span(line, col, *end)


def _word(t: Token) -> Word:
    return Word(str(t), Span(t.line, t.column, t.end_line, t.end_column))


class _Build(Transformer):
    """Builds the nodes while lark parses: one method for each rule, without an intermediate tree."""

    def start(self, c):
        name, *rest, brace = c
        params = tuple(x for x in rest if isinstance(x, ParamNode))
        results = next(x for x in rest if type(x) is tuple)
        items = tuple(x for x in rest if isinstance(x, ArchNode | LaunchNode | GuardNode | StageNode | ReturnNode))
        return ProgramNode(_word(name), params, results, items, _span(name, brace), _span(brace))

    def param(self, c):
        return ParamNode(_word(c[0]), c[1])

    def type(self, c):
        dtype, *dims, close = c
        return TypeNode(_word(dtype), tuple(IntNode(int(d), _span(d)) for d in dims), _span(dtype, close))

    def results(self, c):
        return tuple(c)

    def arch(self, c):
        return ArchNode(_word(c[1]))

    def launch(self, c):
        return LaunchNode(_word(c[1]))

    def guard(self, c):
        return GuardNode(_word(c[1]))

    def return_(self, c):
        return ReturnNode(tuple(_word(n) for n in c[1:]), _span(c[0], c[-1]))

    def stage(self, c):
        name, op, *rest = c
        clauses = rest.pop() if type(rest[-1]) is tuple else ()
        return StageNode(_word(name), _word(op), tuple(rest[:-1]), clauses, _span(name, rest[-1]))

    def operand(self, c):
        return OperandNode(_word(c[0]), len(c) == 2, _span(c[0], c[-1]))

    def block(self, c):
        return tuple(c[:-1])

    def word_clause(self, c):
        return ClauseNode(_word(c[0]), _word(c[1]), _span(c[1]))

    def dims_clause(self, c):
        value = _word(c[1]) if c[1].type == "NAME" else tuple(int(d) for d in c[1].split("x"))
        return ClauseNode(_word(c[0]), value, _span(c[1]))

    def count_clause(self, c):
        value = _word(c[1]) if c[1].type == "NAME" else (int(c[1]),)
        return ClauseNode(_word(c[0]), value, _span(c[1]))

    def scheduler(self, c):
        return (_word(c[0]), int(c[1]) if len(c) > 1 else None, _span(c[0], c[-1]))

    def scheduler_clause(self, c):
        return ClauseNode(_word(c[0]), c[1][:2], c[1][2])

    def flag_clause(self, c):
        return ClauseNode(_word(c[0]), None, _span(c[0]))

    def real_clause(self, c):
        value = _word(c[1]) if c[1].type == "NAME" else NumberNode(float(c[1]), _span(c[1]))
        return ClauseNode(_word(c[0]), value, _span(c[1]))

    def store_clause(self, c):
        return ClauseNode(_word(c[0]), tuple(_word(w) for w in c[1:]), _span(c[1], c[-1]))

    over_clause = store_clause

    def expr_clause(self, c):
        return ClauseNode(_word(c[0]), c[1], c[1].span)

    def part_clause(self, c):
        return ClauseNode(_word(c[0]), PartNode(_word(c[1]), c[2]), c[2].span)

    def _call(self, fn: Word, args, keywords, span):
        depth = 1 + max((a.depth for a in (*args, *(k[1] for k in keywords))), default=0)
        if depth > MAX_DEPTH:
            raise ProgramError([_too_deep(span)])
        return CallNode(fn, tuple(args), tuple(keywords), span, depth)

    def _binary(self, name, c):
        span = _span(c[0], c[1])
        return self._call(Word(name, span), c, (), span)

    def add(self, c):
        return self._binary("add", c)

    def sub(self, c):
        return self._binary("sub", [c[0], c[-1]])

    def mul(self, c):
        return self._binary("mul", c)

    def div(self, c):
        return self._binary("div", c)

    def compare(self, c):
        fn = next(name for name in COMPARISONS if TABLE[name].infix == c[1])
        return self._binary(fn, [c[0], c[2]])

    def neg(self, c):
        span = _span(c[0], c[1])
        if isinstance(c[1], NumberNode) and c[1].value >= 0 and c[1].span.col == c[0].end_column:
            return NumberNode(-c[1].value, span)
        return self._call(Word("neg", span), [c[1]], (), span)

    def number(self, c):
        return NumberNode(min(float(c[0]), sys.float_info.max), _span(c[0]))

    def name(self, c):
        if c[0] == "inf":
            return NumberNode(math.inf, _span(c[0]))
        return RefNode(_word(c[0]), None, _span(c[0]))

    def place(self, c):
        return _word(c[0]), IntNode(int(c[1]), _span(c[1])) if len(c) > 1 else None

    def load(self, c):
        axes, starts = zip(*c[1:-1], strict=True)
        return RefNode(_word(c[0]), axes, _span(c[0], c[-1]), starts=starts)

    def call(self, c):
        args = [a for a in c[1:-1] if type(a) is not tuple]
        return self._call(_word(c[0]), args, [a for a in c[1:-1] if type(a) is tuple], _span(c[0], c[-1]))

    def keyword(self, c):
        return (_word(c[0]), c[1])

    def paren(self, c):
        return ParenNode(c[1], _span(c[0], c[2]), c[1].depth)


setattr(_Build, "return", _Build.return_)  # the name of the grammar's rule is a Python keyword


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=_Build(), maybe_placeholders=False)


# ---- limits, before the parser ----

_TOKENS = re.compile(r"#[^\n]*|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[^\sA-Za-z0-9_#]")
_SHAPE = re.compile(rf"#[^\n]*|[()\[\]{{}}]|[0-9]{{{MAX_DIGITS + 1},}}")


def _at(text: str, pos: int, length: int = 1) -> Span:
    line = text.count("\n", 0, pos) + 1
    col = pos - (text.rfind("\n", 0, pos) + 1) + 1
    return Span(line, col, line, col + length)


def _too_deep(span: Span) -> Diagnostic:
    return Diagnostic("E002", f"this nests deeper than {MAX_DEPTH} levels", span, help="split it over two stages")


def words(text: str) -> int:
    """The number of words and signs, which a program may have MAX_TOKENS of."""
    return len(_TOKENS.findall(text))


def _limits(text: str) -> int:
    """The number of words and signs. Raises ProgramError if the text exceeds a limit."""
    if len(text) > MAX_CHARS:
        raise ProgramError(
            [
                Diagnostic(
                    "E002", f"the program has {len(text):,} characters; at most {MAX_CHARS:,} are read", _at("", 0)
                )
            ]
        )
    size = words(text)
    if size > MAX_TOKENS:
        raise ProgramError(
            [Diagnostic("E002", f"the program has {size:,} words and signs; at most {MAX_TOKENS:,} are read")]
        )
    depth = 0
    for m in _SHAPE.finditer(text):
        c = m.group()
        if c[0] == "#":
            continue
        if c[0].isdigit():
            raise ProgramError(
                [
                    Diagnostic(
                        "E004", f"a number of {len(c):,} digits; at most {MAX_DIGITS}", _at(text, m.start(), len(c))
                    )
                ]
            )
        depth += 1 if c in "([{" else -1
        if depth > MAX_DEPTH:
            raise ProgramError([_too_deep(_at(text, m.start()))])
    return size


# ---- error messages ----

CLAUSES = (
    *("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle", "backend", "store", "epilogue"),
    *("let", "also", "pairs", "stride", "padding", "dilation", "output_padding", "groups"),
    *("view", "permute", "pad", "crop", "from", "interleave", "layout", "to", "prepack"),
    *("op", "over", "of", "keepdim", "reverse", "eps", "window", "layer"),
)
_CLAUSE_END = re.compile(rf"\b({'|'.join(CLAUSES)})\b|[}}#\n]")
_SPACE = r"(?:\s|#[^\n]*(?:\n|\Z))"
_VALUED = "|".join(
    c for c in CLAUSES if c not in ("let", "also", "prepack", "pairs", "interleave", "keepdim", "reverse")
)
# A clause without a value at the end of a text, alone or followed by the next clause, which the parser read as its
# value.
_NO_VALUE = re.compile(rf"\b({_VALUED})(?:{_SPACE}+({'|'.join(CLAUSES)}))?{_SPACE}*\Z")
_CLAUSE_TERMINALS = {
    *("WORD_KEY", "DIMS_KEY", "COUNT_KEY", "REAL_KEY", "SCHEDULER", "STORE", "OVER", "FLAG", "EXPR_KEY", "PART"),
}
_READABLE = {
    "NAME": "a name", "INT": "a whole number", "NUMBER": "a number", "DIMS": "sizes such as 128x256x64",
    "ARCH": "`arch`", "LAUNCH": "`launch`", "GUARD": "`guard`", "RETURN": "`return`", "TRANSPOSE": "`.T`",
    "RBRACE": "`}`", "RPAR": "`)`", "RSQB": "`]`",
    "LPAR": "`(`", "MINUS": "`-`", "LBRACE": "`{`", "LSQB": "`[`", "COMMA": "`,`", "COLON": "`:`", "EQUAL": "`=`",
    "PLUS": "`+`", "STAR": "`*`", "SLASH": "`/`", "PROGRAM": "`program`",
}  # fmt: skip
_WORDS_BEFORE = re.compile(r"[A-Za-z0-9_]+|\S")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_.]*|.", re.DOTALL)


def _expected(names: set[str]) -> str:
    words = [w for n, w in _READABLE.items() if n in names and n not in _CLAUSE_TERMINALS]
    words += ["`->`"] if any(n.startswith("__ANON") for n in names) else []
    words += ["a clause"] if names & _CLAUSE_TERMINALS else []
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _diagnose(text: str, error: UnexpectedInput) -> Diagnostic:
    """The diagnostic of a lark error: an unexpected character, token or end of the text."""
    at_end = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    allowed = set(getattr(error, "accepts", None) or getattr(error, "allowed", None) or ())
    if not allowed:
        allowed = set(getattr(error, "expected", None) or ())
    expected = _expected(allowed - {"$END"})
    if at_end:
        body = text.rstrip()
        return Diagnostic("E001", f"the text ends here; expected {expected}", _at(text, max(0, len(body) - 1)))
    pos = error.pos_in_stream if error.pos_in_stream is not None else 0
    word = _WORD.match(text, pos)
    token = word.group() if word else text[pos : pos + 1]
    span = _at(text, pos, len(token))
    if isinstance(error, UnexpectedCharacters) and not re.match(
        r"[A-Za-z0-9_\[\](){}.,:=+\-*/<>\"';!@$%^&|\\?~`]", token
    ):
        name = f"U+{ord(token[0]):04X}"
        return Diagnostic(
            "E003",
            f"the character {name} has no meaning here",
            span,
            help="names and signs are plain ASCII; # comments",
        )
    before = _WORDS_BEFORE.findall(re.sub(r"#[^\n]*", "", text[:pos])[-200:])
    commas = token == "," and before[-2:-1] in (["tile"], ["cluster"]) and before[-1].isdigit()
    if ("DIMS" in allowed and token[0].isdigit()) or commas:
        help = help_of("for example 128x256x64", Rewrite("128x256x64"))
        return Diagnostic.of("E001", "sizes are written with x between them", span, help)
    if allowed & _CLAUSE_TERMINALS or token == "}":
        start = max(0, pos - 400)
        empty = _NO_VALUE.search(text[start:pos])
        if empty and (empty[2] or token == "}"):
            message = f"`{empty[1]}` has no value" + (f"; `{empty[2]}` after it is a clause" if empty[2] else "")
            span = _at(text, start + empty.start(1), len(empty[1]))
            return Diagnostic.of("E001", message, span, foreign_idioms.leave_out(empty[1]))
    if token[0].isdigit() and "INT" in allowed:
        return Diagnostic("E001", f"`{token}` is not a whole number", span)
    if token == "return" and allowed & _CLAUSE_TERMINALS:
        return Diagnostic("E001", "the stage above is not closed: its `}` is missing", span)
    if allowed & _CLAUSE_TERMINALS and (token[0].isalpha() or token[0] == "_"):
        help = foreign_idioms.of_clause(token, before) or did_you_mean(closest(token, CLAUSES))
        return Diagnostic.of("E006", f"`{token}` is not a clause", span, help, (f"clauses are {listing(CLAUSES)}",))
    if not expected:
        message = f"unexpected `{token}`: the program ends with the `}}` before it"
        help = "a text holds one program" if token == "program" else foreign_idioms.leave_out(token)
        return Diagnostic.of("E001", message, span, help)
    message = f"unexpected `{token}`; expected {expected}"
    return Diagnostic.of("E001", message, span, foreign_idioms.of_syntax(token, allowed, before))


@lru_cache(maxsize=32)  # the checker, the editor and the formatter read the same text one after the other
def parse(text: str) -> ProgramNode:
    """The syntax tree of a program. Raises ProgramError (codes E0xx) if the text is no program."""
    size = _limits(text)
    diagnostics: list[Diagnostic] = []
    while True:
        try:
            tree = _parser().parse(text)
            break
        except UnexpectedInput as error:
            diagnostic = _diagnose(text, error)
            diagnostics.append(diagnostic)
            # Each further error needs another parse, so a long program reports fewer unknown clauses at once.
            if (
                diagnostic.code != "E006"
                or len(diagnostics) == MAX_ERRORS
                or size * (len(diagnostics) + 1) > 2 * MAX_TOKENS
            ):
                break
            text = _blank(text, error.pos_in_stream)
    if diagnostics:
        raise ProgramError(diagnostics)
    return tree


def _blank(text: str, start: int) -> str:
    """The text with an unknown clause replaced by spaces up to the next clause, brace or line, to check the rest."""
    end = _CLAUSE_END.search(text, start + 1)
    stop = end.start() if end else len(text)
    return text[:start] + " " * (stop - start) + text[stop:]
