"""Where the work of sessions runs: the machine's cores, and one lane for each GPU.

    executor = local()                                     # of this process; a distributed one has the same interface
    with executor.hold("gpu0", share, cancelled) as turn:  # waits for its turn; Cancelled if `cancelled()` becomes true
        ...

A session's steps say which place they need, and the executor decides when they run. A GPU lane belongs to one piece
of work at a time, because a time is only right on a quiet GPU. Cores are shared by a bounded number of pieces. Among
the pieces that wait, the next one belongs to whoever used the place least lately: the room, in it the address, in it
the session; among equals, to the session that is oldest.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

# Places on this machine's cores; every other name is the lane of one GPU. think: Python of this process, which runs on
# one core whatever the machine has; core: work in other processes; build: compilers; report: tracing for the reports;
# and, for each GPU, what `loading` names: processes that open it, beside its lane.
CORES = ("think", "core", "build", "report")
LOADING = "load "


class Cancelled(Exception):
    """The session was stopped while its work waited for a place."""


class Lost(Exception):
    """The place went away with its worker while the work ran there (its machine was lost). The work may run again."""


@dataclass(frozen=True)
class Share:
    """Who asks for a place. `room`: of a workshop, else of the address alone; `since`: when the session was created, in
    seconds since the epoch; an older one precedes among equals."""

    room: str = ""
    address: str = ""
    session: str = ""
    since: float = 0.0

    @property
    def levels(self) -> tuple[str, str, str]:
        """The accounts that a piece of work is charged to, from the widest to the narrowest."""
        room = self.room or f"address {self.address or self.session}"
        return room, f"{room} / {self.address}", f"{room} / {self.address} / {self.session}"


class Turn(Protocol):
    """A piece of work that waits for a place or has it. `waited`: seconds so far, or until it got the place."""

    place: str
    waited: float
    waiting: bool

    def ahead(self) -> int:
        """Pieces of work that get the place before this one."""


class Executor(Protocol):
    """Where work runs. Calls come from many threads."""

    def turn(self, place: str, share: Share) -> Turn:
        """A turn in the line for a place (one of CORES, or a GPU's lane such as gpu0); it waits from now on."""

    def hold(self, turn: Turn, cancelled: Callable[[], bool] = lambda: False) -> AbstractContextManager[Turn]:
        """Wait for the place, and keep it until the block ends. Raises Cancelled, and Lost when the block ends after
        its worker was lost."""


def loading(place: str) -> str:
    """The place for processes that open a GPU, by the name of its lane."""
    return LOADING + place


def words(place: str) -> str:
    """The name of a place for a person."""
    if place.startswith("gpu"):
        return "the GPU"
    return {"build": "a core to build on", "report": "the tracer"}.get(place, "a core")
