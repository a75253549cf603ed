"""What a session says of a group of shapes: it tunes for one shape, and a study of its own measures a group."""

from __future__ import annotations

from typing import Any

from engine.suite.shape_groups import Shape, group_of

ONE = "A session tunes for the one shape of its module."
NO_GROUP = f"{ONE} This module is none of the problems with a group of shapes."
GROUP = (
    f"{ONE} A configuration is timed at another shape by a session of that shape, because inputs, bound and PyTorch's "
    "time are its own. The study plays these sessions and chooses the general configuration from them."
)
COMMAND = "python -m engine.bench.studies.shape_groups --only {} --device {}"


def facts(source: str, device: str) -> dict[str, Any]:
    """Why the session has no general configuration. `group`: name of the module's problem, "" without one, with its
    tuned and unseen shapes and the command of the study that measures them. `device`: measured | predicted."""
    group = group_of(source)
    if group is None:
        return {"group": "", "tuned": [], "unseen": [], "why": NO_GROUP, "command": ""}
    return {
        "group": group.name, "tuned": _words(group.tuned), "unseen": _words(group.unseen), "why": GROUP,
        "command": COMMAND.format(group.name, "cuda" if device == "measured" else "modelled:h200"),
    }  # fmt: skip


def _words(shapes: tuple[Shape, ...]) -> list[str]:
    return ["x".join(map(str, shape)) for shape in shapes]


__all__ = ["facts"]
