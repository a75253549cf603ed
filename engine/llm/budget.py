"""The tokens that calls may use: of one session, and of a day with the operator's key, in all and for each address.

Tokens are reserved before a call, the prompt's estimate and the longest reply, and settled after it. An engine that is
killed in between leaves its reservation on the day's account, because the endpoint may count the call.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from engine.atomic_write import write_text
from engine.llm.ledger import Entry

LEAST = 256  # tokens of a reply below which a call is not worth making
NAME = "model_tokens"


class OverBudget(Exception):
    """The tokens are used up. The message says whose, and what helps."""


def _date() -> str:
    return datetime.now(UTC).date().isoformat()


def _of(used: int, most: int, prompt: int, reply: int) -> str:
    """How many tokens are used, and how many the refused turn needs, which may be more than those that are left."""
    return f"({used:,} of {most:,}; this turn needs at least {prompt + min(LEAST, reply):,})"


class Day:
    """The day's account, a file that all engines of this machine with the same folder share. Days are UTC. `address`:
    whose session it is (a digest), which may use `most_of_address` of the tokens; "": nobody's in particular."""

    def __init__(
        self, folder: Path, most: int, today: Callable[[], str] = _date, *, address: str = "", most_of_address: int = 0
    ):
        self.folder, self.most, self._today = folder, most, today
        self.address, self.most_of_address = address, most_of_address or most

    def used(self) -> int:
        """Tokens used or reserved today."""
        return self._read()[0]

    def _read(self) -> tuple[int, dict[str, int]]:
        """Today's tokens, in all and by address."""
        try:
            account = json.loads((self.folder / f"{NAME}.json").read_text(encoding="utf-8"))
            day, tokens = account["day"], int(account["tokens"])
            addresses = {str(name): int(n) for name, n in account.get("addresses", {}).items()}
            return (tokens, addresses) if day == self._today() else (0, {})
        except FileNotFoundError:
            return 0, {}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise OverBudget(
                f"The account of the day's tokens, {NAME}.json in the folder UCUTLASS_VAR, cannot be read, so no model "
                "is asked. Delete that file to start the day's account at 0."
            ) from None

    def reserve(self, prompt: int, reply: int) -> tuple[str, int]:
        """Reserve a prompt and a reply of at most `reply` tokens. Returns the day and the reply's tokens. Raises
        OverBudget, and OSError where the file cannot be written."""
        with self._locked():
            used, addresses = self._read()
            own = addresses.get(self.address, 0)
            if self.address and self.most_of_address - own - prompt < min(LEAST, reply):
                raise OverBudget(
                    "The models' tokens of your address are used up today "
                    f"{_of(own, self.most_of_address, prompt, reply)}. The day ends at midnight UTC; the "
                    "operator can raise UCUTLASS_TOKENS_AN_ADDRESS."
                )
            granted = min(reply, self.most - used - prompt)
            if self.address:
                granted = min(granted, self.most_of_address - own - prompt)
            if granted < min(LEAST, reply):
                raise OverBudget(
                    f"The models' tokens of this day are used up {_of(used, self.most, prompt, reply)}. The day ends "
                    "at midnight UTC; the operator can raise UCUTLASS_TOKENS_A_DAY."
                )
            self._write(used, addresses, prompt + granted)
            return self._today(), granted

    def settle(self, day: str, reserved: int, used: int) -> None:
        """Replace a reservation by what was used."""
        with self._locked():
            if day == self._today():
                self._write(*self._read(), used - reserved)

    def _write(self, tokens: int, addresses: dict[str, int], change: int) -> None:
        if self.address:
            addresses = {**addresses, self.address: max(0, addresses.get(self.address, 0) + change)}
        account = {"day": self._today(), "tokens": max(0, tokens + change), "addresses": addresses}
        write_text(self.folder / f"{NAME}.json", json.dumps(account) + "\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, among threads and processes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{NAME}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class SessionTokens:
    """The tokens of one session. The log's attempts count, and those that this process makes and that are not in the
    log yet: members of a Together are asked at once."""

    def __init__(self, most: int, tokens_a_call: int):
        self.most, self._a_call = most, tokens_a_call
        self._lock = Lock()
        self._own: dict[tuple[str, int], int] = {}  # (path, attempt) -> tokens reserved or used

    def reserve(self, attempt: tuple[str, int], past: list[Entry], prompt: int, reply: int) -> int:
        """Reserve a prompt and a reply of at most `reply` tokens; returns the reply's tokens. Raises OverBudget."""
        with self._lock:
            others = (e.at_most(self._a_call) for e in past if (e.path, e.attempt) not in self._own)
            used = sum(others) + sum(self._own.values())
            granted = min(reply, self.most - used - prompt)
            if granted < min(LEAST, reply):
                raise OverBudget(
                    f"The models' tokens of this session are used up {_of(used, self.most, prompt, reply)}. The "
                    "operator can raise UCUTLASS_TOKENS_A_SESSION."
                )
            self._own[attempt] = prompt + granted
            return granted

    def settle(self, attempt: tuple[str, int], used: int) -> None:
        """Replace a reservation by what was used."""
        with self._lock:
            self._own[attempt] = used
