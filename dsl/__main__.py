"""The language at a terminal: `python -m dsl check|format|resolve|compile|explain`, one or many programs.

Standard output has one line a file (or, of one file, the text that was asked for); the carets of what is rejected go
to standard error. Exit codes: 0 all passed; 1 a program was rejected, is not laid out, or no back end takes it; 2 a
file cannot be read, or the command is wrong.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dsl import codes
from dsl.check.program import check
from dsl.compile import BACKENDS, Compiled, compile
from dsl.diagnostics import Diagnostic
from dsl.editor.formatter import formatted
from dsl.editor.repair import repairs
from dsl.editor.vocabulary import entry
from dsl.ir import Program
from dsl.printer import to_text
from dsl.resolve import resolve

PASSED, REJECTED, WRONG = 0, 1, 2
ENDS = """exit codes:
  0  every program passes (format --check: and is laid out; compile: and a back end takes it)
  1  a program does not
  2  a file cannot be read, or the command is wrong

FILE may be a folder (its *.ucutlass files, at any depth) or - (standard input). With --json each file is one line of
JSON with file and ok, and with diagnostics where it is rejected: code, message, line, col, end_line, end_col (1-based,
the end exclusive), notes, help, and fix, an edit that was tried and works: line, col, end_line, end_col, text, title.
"""


class Unusable(Exception):
    """A file or a command that cannot be: one line for a person."""


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    if args.command == "explain":
        return _explain(args)
    try:
        files = list(_files(args.files))
        _possible(args, files)
    except Unusable as error:
        print(f"python -m dsl: {error}", file=sys.stderr)
        return WRONG
    ends = [_one(file, args, len(files) > 1) for file in files]
    if len(files) > 1 and not args.json:
        passed = sum(e == PASSED for e in ends)
        print(f"{passed} of {len(files)} files pass", file=sys.stderr)
    return max(ends)


# ---- one file ----


@dataclass(frozen=True)
class _Told:
    """What one file gave. `line`: after its name; `text`: what was asked for; `facts`: the same for machines."""

    code: int
    line: str
    facts: dict
    text: str | None = None
    details: str = ""


def _one(file: str, args: argparse.Namespace, many: bool) -> int:
    try:
        told = _judge(file, _read(file), args)
    except Unusable as error:
        told = _Told(WRONG, str(error), {"ok": False, "error": str(error)}, details=f"{file}: {error}")
    if args.json:
        print(json.dumps({"file": file, **told.facts}))
    elif told.text is not None and not many:
        print(told.text, end="")
    elif told.code != WRONG and (many or not told.details):
        print(f"{file}:{told.line}", flush=True)
    if told.details and not args.json:
        print(told.details, file=sys.stderr)
    return told.code


def _judge(file: str, source: str, args: argparse.Namespace) -> _Told:
    checked = check(source)
    if checked.program is None:
        return _rejected(source, checked.diagnostics)
    if args.command == "format":
        return _format(file, source, checked.program, args)
    if args.command == "compile":
        return _compile(file, checked.program, args)
    facts = {"ok": True, "diagnostics": [], "text": to_text(checked.program)}
    if args.command == "check":
        return _Told(PASSED, f" program {checked.program.name} passes every check", facts)
    text = to_text(resolve(checked.program))
    name = _write(args.out, f"{_stem(file)}.resolved.ucutlass", text) if args.out else "resolved"
    return _Told(PASSED, f" {name}, {text.count(chr(10))} lines", facts | {"text": text}, None if args.out else text)


def _rejected(source: str, found: tuple[Diagnostic, ...]) -> _Told:
    first, rest = found[0], len(found) - 1
    place = f"{first.span.line}:{first.span.col}:" if first.span.line else ""
    more = f" (and {rest} more)" if rest else ""
    fixes = (None if r is None else r.to_json() for r in repairs(source, found))
    facts = {"ok": False, "diagnostics": [d.to_json() | {"fix": f} for d, f in zip(found, fixes, strict=True)]}
    details = "\n\n".join(d.render(source) for d in found)
    return _Told(REJECTED, f"{place} {first.code} {first.message}{more}", facts, details=details)


def _format(file: str, source: str, program: Program, args: argparse.Namespace) -> _Told:
    text = formatted(source, program)
    same = text == source
    facts = {"ok": same or not args.check, "diagnostics": [], "text": text, "changed": not same}
    if args.check:
        return _Told(PASSED if same else REJECTED, " is laid out" if same else " would be laid out anew", facts)
    if args.write:
        if not same:
            Path(file).write_bytes(text.encode())
        return _Told(PASSED, " is laid out" if same else " laid out anew", facts)
    return _Told(PASSED, "", facts, text)


def _compile(file: str, program: Program, args: argparse.Namespace) -> _Told:
    made = compile(program)
    wanted = [args.backend] if args.backend else list(BACKENDS)
    given = [n for n in wanted if n in made.sources]
    refused = [
        f"{n} refuses: {r.code} {r.message}" + (f" (help: {r.help})" if r.help else "") for n, r in made.refused.items()
    ]
    facts = {
        "ok": bool(given),
        "digest": made.digest,
        "text": made.text,
        "sources": {n: {"text": made.sources[n].text, "binding": made.sources[n].binding} for n in given},
        "refused": {n: {"code": r.code, "message": r.message, "help": r.help} for n, r in made.refused.items()},
    }
    said = [f"{n} {made.sources[n].text.count(chr(10)) + 1} lines" for n in given] + refused
    text = made.sources[given[0]].text + "\n" if given else None
    if args.out and given:
        said = _sources(file, made, given, args.out) + refused
        text = None
    line = f" {made.digest}: {'; '.join(said)}"
    return _Told(PASSED if given else REJECTED, line, facts, text, "\n".join(refused) if text or not given else "")


def _sources(file: str, made: Compiled, given: list[str], out: str) -> list[str]:
    """Each back end's text as a file of `out`, and its PyTorch binding where that is another text."""
    names = []
    for n in given:
        source = made.sources[n]
        names.append(_write(out, f"{_stem(file)}_{n}{'.cu' if source.language == 'cuda' else '.py'}", source.text))
        if source.binding != source.text:
            names.append(_write(out, f"{_stem(file)}_{n}.py", source.binding))
    return names


# ---- files ----


def _files(said: list[str]) -> Iterator[str]:
    for name in said:
        if name != "-" and Path(name).is_dir():
            found = sorted(str(p) for p in Path(name).rglob("*.ucutlass"))
            if not found:
                raise Unusable(f"{name} holds no *.ucutlass file")
            yield from found
        else:
            yield name


def _possible(args: argparse.Namespace, files: list[str]) -> None:
    """Raises Unusable for what these files cannot be asked."""
    if len(files) > 1 and args.command == "format" and not (args.write or args.check or args.json):
        raise Unusable("format of several files needs --check (say which are not laid out) or --write (lay them out)")
    if args.command == "format" and args.write and "-" in files:
        raise Unusable("--write needs a file, not standard input")
    if getattr(args, "out", None):
        stems = [_stem(f) for f in files]
        twice = next((s for s in stems if stems.count(s) > 1), None)
        if twice:
            raise Unusable(f"two files are named {twice}; give each a folder of its own with --out")


def _stem(file: str) -> str:
    return "program" if file == "-" else Path(file).stem


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None


def _write(folder: str, name: str, text: str) -> str:
    path = Path(folder) / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except OSError as error:
        raise Unusable(f"cannot write {path}: {error.strerror}") from None
    return str(path)


def _explain(args: argparse.Namespace) -> int:
    end = PASSED
    for i, word in enumerate(args.words):
        page = codes.page(word) or entry(word)
        if page is None:
            print(f"no code or word {word}; codes are {', '.join(codes.CODES)}", file=sys.stderr)
            end = REJECTED
        elif args.json:
            print(json.dumps(page.to_json()))
        else:
            print(f"\n{page}" if i else page)
    return end


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    about = "μCUTLASS: check, format, resolve, compile, explain"
    parser = argparse.ArgumentParser(prog="python -m dsl", description=about, epilog=ENDS, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("check", "report every error"),
        ("format", "print the program laid out, its comments kept"),
        ("resolve", "print the program with every auto filled in"),
        ("compile", "print the generated code"),
    ):
        p = commands.add_parser(name, help=what, description=what, epilog=ENDS, formatter_class=form)
        p.add_argument("files", metavar="FILE", nargs="+", help="a program, a folder of programs, or - for stdin")
        p.add_argument("--json", action="store_true", help="a line of JSON a file")
        if name == "format":
            how = p.add_mutually_exclusive_group()
            how.add_argument("--check", action="store_true", help="change nothing; exit 1 where a file would change")
            how.add_argument("--write", action="store_true", help="write the file anew where it would change")
        if name in ("resolve", "compile"):
            p.add_argument("--out", metavar="DIR", help="write the texts to files of this folder")
        if name == "compile":
            p.add_argument("--backend", choices=BACKENDS, help="which code; both, or the first printed, otherwise")
    p = commands.add_parser("explain", help="print the page of an error code, such as E204, or of a word, such as tile")
    p.add_argument("words", metavar="CODE", nargs="+", help="a code or a word of the language")
    p.add_argument("--json", action="store_true", help="a line of JSON each")
    return parser.parse_args(argv)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it in silence
    sys.exit(main())
