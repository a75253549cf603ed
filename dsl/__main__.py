"""The command line of the language: `python -m dsl check|format|resolve|compile|explain`, for one or many programs.

Standard output has one line for each file, or the requested text for a single file. Diagnostics go to standard error.
Exit codes: 0 all programs pass; 1 a program is rejected, is not formatted, or no back end compiles it; 2 a file cannot
be read, or the command line is wrong.
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
from dsl.compile import Compiled, compile
from dsl.diagnostics import Diagnostic
from dsl.editor.formatter import formatted
from dsl.editor.repair import repairs
from dsl.editor.vocabulary import entry
from dsl.ir import Program
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules.legal import BACKENDS

PASSED, REJECTED, WRONG = 0, 1, 2
ENDS = """exit codes:
  0  every program passes (format --check: and is formatted; compile: and a back end compiles it)
  1  a program does not
  2  a file cannot be read, or the command line is wrong

FILE may be a folder (its *.ucutlass files, at any depth) or - (standard input). With --json each file is one line of
JSON with file and ok. A rejected file also has diagnostics: code, message, line, col, end_line, end_col (1-based, the
end exclusive), notes, help, and fix, an edit after which the program passes here: line, col, end_line, end_col, text,
title.
"""


class Unusable(Exception):
    """A file that cannot be read or a wrong command line; the message is one line for a person."""


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
class _Outcome:
    """The outcome for one file.

    `line` is printed after the file's name, `text` is the requested text, `facts` is the content of the JSON line, and
    `details` goes to standard error.
    """

    code: int
    line: str
    facts: dict
    text: str | None = None
    details: str = ""


def _one(file: str, args: argparse.Namespace, many: bool) -> int:
    try:
        outcome = _judge(file, _read(file), args)
    except Unusable as error:
        outcome = _Outcome(WRONG, str(error), {"ok": False, "error": str(error)}, details=f"{file}: {error}")
    if args.json:
        print(json.dumps({"file": file, **outcome.facts}))
    elif outcome.text is not None and not many:
        print(outcome.text, end="")
    elif outcome.code != WRONG and (many or not outcome.details):
        print(f"{file}:{outcome.line}", flush=True)
    if outcome.details and not args.json:
        print(outcome.details, file=sys.stderr)
    return outcome.code


def _judge(file: str, source: str, args: argparse.Namespace) -> _Outcome:
    checked = check(source)
    if checked.program is None:
        return _rejected(source, checked.diagnostics)
    if args.command == "format":
        return _format(file, source, checked.program, args)
    if args.command == "compile":
        return _compile(file, checked.program, args)
    facts = {"ok": True, "diagnostics": [], "text": to_text(checked.program)}
    if args.command == "check":
        return _Outcome(PASSED, f" program {checked.program.name} passes every check", facts)
    text = to_text(resolve(checked.program))
    name = _write(args.out, f"{_stem(file)}.resolved.ucutlass", text) if args.out else "resolved"
    return _Outcome(PASSED, f" {name}, {text.count(chr(10))} lines", facts | {"text": text}, None if args.out else text)


def _rejected(source: str, diagnostics: tuple[Diagnostic, ...]) -> _Outcome:
    first, rest = diagnostics[0], len(diagnostics) - 1
    place = f"{first.span.line}:{first.span.col}:" if first.span.line else ""
    more = f" (and {rest} more)" if rest else ""
    fixes = (None if r is None else r.to_json() for r in repairs(source, diagnostics))
    facts = {"ok": False, "diagnostics": [d.to_json() | {"fix": f} for d, f in zip(diagnostics, fixes, strict=True)]}
    details = "\n\n".join(d.render(source) for d in diagnostics)
    return _Outcome(REJECTED, f"{place} {first.code} {first.message}{more}", facts, details=details)


def _format(file: str, source: str, program: Program, args: argparse.Namespace) -> _Outcome:
    text = formatted(source, program)
    same = text == source
    facts = {"ok": same or not args.check, "diagnostics": [], "text": text, "changed": not same}
    if args.check:
        return _Outcome(PASSED if same else REJECTED, " is formatted" if same else " is not formatted", facts)
    if args.write:
        if not same:
            Path(file).write_bytes(text.encode())
        return _Outcome(PASSED, " is already formatted" if same else " formatted", facts)
    return _Outcome(PASSED, "", facts, text)


def _compile(file: str, program: Program, args: argparse.Namespace) -> _Outcome:
    compiled = compile(program)
    requested = [args.backend] if args.backend else list(BACKENDS)
    written = [n for n in requested if n in compiled.sources]
    refused = [
        f"{n} refuses: {r.code} {r.message}" + (f" (help: {r.help})" if r.help else "")
        for n, r in compiled.refused.items()
    ]
    facts = {
        "ok": bool(written),
        "digest": compiled.digest,
        "text": compiled.text,
        "sources": {n: {"text": compiled.sources[n].text, "binding": compiled.sources[n].binding} for n in written},
        "refused": {n: {"code": r.code, "message": r.message, "help": r.help} for n, r in compiled.refused.items()},
    }
    summary = [f"{n} {compiled.sources[n].text.count(chr(10)) + 1} lines" for n in written] + refused
    text = compiled.sources[written[0]].text + "\n" if written else None
    if args.out and written:
        summary = _sources(file, compiled, written, args.out) + refused
        text = None
    line = f" {compiled.digest}: {'; '.join(summary)}"
    return _Outcome(
        PASSED if written else REJECTED, line, facts, text, "\n".join(refused) if text or not written else ""
    )


def _sources(file: str, compiled: Compiled, backends: list[str], out: str) -> list[str]:
    """Write each back end's text to the folder `out`, and its PyTorch binding if that is a separate text."""
    names = []
    for n in backends:
        source = compiled.sources[n]
        names.append(_write(out, f"{_stem(file)}_{n}{'.cu' if source.language == 'cuda' else '.py'}", source.text))
        if source.binding != source.text:
            names.append(_write(out, f"{_stem(file)}_{n}.py", source.binding))
    return names


# ---- files ----


def _files(names: list[str]) -> Iterator[str]:
    for name in names:
        if name != "-" and Path(name).is_dir():
            programs = sorted(str(p) for p in Path(name).rglob("*.ucutlass"))
            if not programs:
                raise Unusable(f"{name} holds no *.ucutlass file")
            yield from programs
        else:
            yield name


def _possible(args: argparse.Namespace, files: list[str]) -> None:
    """Raise Unusable if the command cannot apply to these files."""
    if len(files) > 1 and args.command == "format" and not (args.write or args.check or args.json):
        raise Unusable("format of several files needs --check (list the unformatted ones) or --write (format them)")
    if args.command == "format" and args.write and "-" in files:
        raise Unusable("--write needs a file, not standard input")
    if getattr(args, "out", None):
        stems = [_stem(f) for f in files]
        twice = next((s for s in stems if stems.count(s) > 1), None)
        if twice:
            raise Unusable(f"two files are named {twice}; compile them into separate folders with --out")


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
    for name, summary in (
        ("check", "report every error"),
        ("format", "print the formatted program with its comments"),
        ("resolve", "print the program with every auto filled in"),
        ("compile", "print the generated code"),
    ):
        p = commands.add_parser(name, help=summary, description=summary, epilog=ENDS, formatter_class=form)
        p.add_argument("files", metavar="FILE", nargs="+", help="a program, a folder of programs, or - for stdin")
        p.add_argument("--json", action="store_true", help="print one line of JSON for each file")
        if name == "format":
            how = p.add_mutually_exclusive_group()
            how.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is not formatted")
            how.add_argument("--write", action="store_true", help="format the files in place")
        if name in ("resolve", "compile"):
            p.add_argument("--out", metavar="DIR", help="write the texts to files of this folder")
        if name == "compile":
            p.add_argument("--backend", choices=BACKENDS, help="generate for this back end only")
    p = commands.add_parser("explain", help="print the page of an error code, such as E204, or of a word, such as tile")
    p.add_argument("words", metavar="CODE", nargs="+", help="a code or a word of the language")
    p.add_argument("--json", action="store_true", help="print one line of JSON for each word")
    return parser.parse_args(argv)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # no traceback when `| head` closes the pipe
    sys.exit(main())
