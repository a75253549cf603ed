"""The fields of a session as command-line arguments, generated from the spec's model."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from engine.session import spec
from engine.session.spec import BadSpec, SessionSpec, SpecFields

FROM_FILE = ("title", "source", "source_kind")
FLAGS = {"classes": "class", "options": "option"}  # where the flag's name differs from the field's


def add(parser: argparse.ArgumentParser) -> None:
    """Add one flag per field. A flag that is not given stays None."""
    for name, field in SpecFields.model_fields.items():
        if name in FROM_FILE:
            continue
        flag, kind, about = f"--{FLAGS.get(name, name)}", field.annotation, _help(name)
        if name == "classes":
            parser.add_argument(flag, dest=name, action="append", metavar="CLASS", help=about)
        elif name == "options":
            parser.add_argument(flag, dest=name, action="append", metavar="NAME=VALUE", help=about)
        elif kind is bool:
            parser.add_argument(flag, action="store_true", default=None, help=about)
        else:
            metavar = {int: "N", float: "X"}.get(kind, name.upper())
            parser.add_argument(flag, type=kind if kind in (int, float) else str, metavar=metavar, help=about)


def _help(name: str) -> str:
    field, about = SpecFields.model_fields[name], spec.about(name)
    text = about[:1].lower() + about[1:]
    if name == "options":
        of = [
            f"{s['name']} has {', '.join(o['name'] for o in s['options'])}" for s in spec.strategies() if s["options"]
        ]
        text += f", repeatable; {'; '.join(of)}"
    elif name == "classes":
        text += f": {', '.join(spec.CLASSES)}; repeatable (default {' and '.join(field.default)})"
    elif name == "strategy":
        text += f": {', '.join(s['name'] for s in spec.strategies())} (default {field.default})"
    elif name == "device":
        text += ": cuda, or modelled:h200 for a prediction (default: cuda where there is a GPU)"
    elif field.annotation is not bool and field.default != "":
        text += f" (default {field.default})"
    return text.replace("%", "%%")


def spec_of(args: argparse.Namespace, title: str, source: str, source_kind: str, device: str) -> SessionSpec:
    """The session from the typed arguments; `device`: the default device. Raises BadSpec."""
    fields = {name: vars(args)[name] for name in SpecFields.model_fields if name not in FROM_FILE}
    fields = {name: value for name, value in fields.items() if value is not None}
    if "options" in fields:
        fields["options"] = dict(map(_option, fields["options"]))
    return SessionSpec(**{"title": title, "source": source, "source_kind": source_kind, "device": device, **fields})


def _option(text: str) -> tuple[str, Any]:
    """`limit=20` -> ("limit", 20)"""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadSpec("option", f"write NAME=VALUE, for example limit=20, and not {text[:40]!r}")
    try:
        return name, int(value)
    except ValueError:
        return name, value


def command_of(session: SessionSpec, what: str) -> str:
    """The command that starts this session again on `what`, a file or an example, with every field that differs from
    its default, the device, the budget and the seed."""
    words = ["python -m engine optimize", shlex.quote(what)]
    for name, field in SpecFields.model_fields.items():
        value, flag = vars(session)[name], f"--{FLAGS.get(name, name)}"
        if name in FROM_FILE:
            continue
        if name == "options":
            words += [f"{flag} {shlex.quote(f'{k}={v}')}" for k, v in value.model_dump(exclude_defaults=True).items()]
        elif name in ("device", *session.budget, "seed") or value != field.default:
            if isinstance(value, bool):
                words.append(flag)
            elif isinstance(value, tuple):
                words += [f"{flag} {cls}" for cls in value]
            else:
                words.append(f"{flag} {value if isinstance(value, str) else json.dumps(value)}")
    return " ".join(words)
