"""The language at a terminal: `python -m dsl check|format|resolve|compile|explain`. Exit code 1: rejected."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import codes
from .check import check
from .compile import compile
from .printer import to_text
from .resolve import resolve
from .words import entry


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    if args.command == "explain":
        page = codes.CODES.get(args.file.upper()) or entry(args.file)
        if page is None:
            print(f"no code or word {args.file}; codes are {', '.join(codes.CODES)}", file=sys.stderr)
            return 1
        print(json.dumps(page.to_json()) if args.json else page)
        return 0
    try:
        source = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"cannot read {args.file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}", file=sys.stderr)
        return 2
    checked = check(source)
    if checked.program is None:
        if args.json:
            print(json.dumps({"ok": False, "diagnostics": [d.to_json() for d in checked.diagnostics]}))
        else:
            print("\n\n".join(d.render(source) for d in checked.diagnostics), file=sys.stderr)
        return 1
    if args.command == "compile":
        return _compile(checked.program, args)
    text = to_text(resolve(checked.program) if args.command == "resolve" else checked.program)
    if args.json:
        print(json.dumps({"ok": True, "diagnostics": [], "text": text}))
    elif args.command != "check":
        print(text, end="")
    else:
        print(f"{args.file}: program {checked.program.name} passes every check")
    return 0


def _compile(program, args) -> int:
    out = compile(program)
    if args.json:
        print(
            json.dumps(
                {
                    "ok": bool(out.sources),
                    "digest": out.digest,
                    "text": out.text,
                    "sources": {n: {"text": s.text, "binding": s.binding} for n, s in out.sources.items()},
                    "refused": {
                        n: {"code": r.code, "message": r.message, "help": r.help} for n, r in out.refused.items()
                    },
                }
            )
        )
    else:
        wanted = [args.backend] if args.backend else list(out.sources)
        for name in wanted:
            if name in out.sources:
                print(out.sources[name].text)
                break
        for name, r in out.refused.items():
            print(f"{name} refuses: {r.code} {r.message}" + (f" (help: {r.help})" if r.help else ""), file=sys.stderr)
    return 0 if out.sources else 1


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog="python -m dsl", description="μCUTLASS: check, format, resolve, compile, explain"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("check", "report every error"),
        ("format", "print the program in its canonical form"),
        ("resolve", "print the program with every auto filled in"),
        ("compile", "print the generated code"),
        ("explain", "print the page of an error code, such as E204, or of a word, such as tile"),
    ):
        p = commands.add_parser(name, help=what)
        p.add_argument(
            "file", metavar="CODE" if name == "explain" else "FILE", help=None if name == "explain" else "- is stdin"
        )
        p.add_argument("--json", action="store_true", help="machine-readable output")
        if name == "compile":
            p.add_argument(
                "--backend", choices=("cute", "cpp"), help="which code to print; the first there is otherwise"
            )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
