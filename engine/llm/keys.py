"""A visitor's key between the browser and the engine: asked for with a public key, sealed, and opened once.

The engine makes a KeyPair in memory and logs its public key. The web process seals the visitor's key for it, with the
session, the claim and the endpoint that it is for, and stores only the sealed bytes (libsodium's sealed box: X25519 and
XSalsa20-Poly1305, by PyNaCl). Only that engine process can open them. No message of this module holds a key.
"""

from __future__ import annotations

import json
import resource
from dataclasses import asdict, dataclass

from engine.llm.endpoint import SHORTEST_SECRET
from engine.llm.settings import fits_a_header

LONGEST = 400  # characters of a key; those of common services have up to 200


class BadKey(ValueError):
    """A text cannot be a key. The message says why, without the text."""


class Unopened(Exception):
    """Sealed bytes that are not for this request. The message says what differs."""


@dataclass(frozen=True)
class KeyRequest:
    """What a key is asked for: the session, the engine's claim of it, and the endpoint's base URL."""

    session: str
    claim: int
    endpoint: str


def checked(key: str) -> str:
    """The key without space around it. Raises BadKey for a text that no HTTP header can carry as a key."""
    key = key.strip()
    if not key:
        raise BadKey("There is no key.")
    if len(key) < SHORTEST_SECRET:
        raise BadKey(f"The key is too short: at least {SHORTEST_SECRET} characters.")
    if len(key) > LONGEST:
        raise BadKey(f"The key is too long: at most {LONGEST} characters.")
    if not fits_a_header(key):
        raise BadKey("The key has a space, a line end or a character outside of ASCII.")
    return key


def seal(key: str, request: KeyRequest, public_key: str) -> bytes:
    """The key, sealed for the engine with this public key (hex). Raises ValueError for a malformed public key."""
    from nacl.public import PublicKey, SealedBox  # here, because only few requests need it

    box = SealedBox(PublicKey(bytes.fromhex(public_key)))
    return bytes(box.encrypt(json.dumps({"key": key, **asdict(request)}).encode()))


class KeyPair:
    """A new pair. The private half stays in this object."""

    def __init__(self) -> None:
        from nacl.public import PrivateKey

        self._private = PrivateKey.generate()

    @property
    def public_key(self) -> str:
        """In hex, 64 digits."""
        return bytes(self._private.public_key).hex()

    def open(self, sealed: bytes, request: KeyRequest) -> str:
        """The key. Raises Unopened if the bytes are sealed for another pair, session, claim or endpoint."""
        from nacl.exceptions import CryptoError
        from nacl.public import SealedBox

        try:
            content = json.loads(SealedBox(self._private).decrypt(sealed))
        except (CryptoError, ValueError):
            raise Unopened("It was sealed for another request.") from None
        if not isinstance(content, dict) or not isinstance(content.get("key"), str):
            raise Unopened("It holds no key.")
        for name, wanted in asdict(request).items():
            if content.get(name) != wanted:
                raise Unopened(f"It was sealed for another {name}.")
        try:
            return checked(content["key"])
        except BadKey as e:
            raise Unopened(str(e)) from None


def no_core_dumps() -> None:
    """Switch core dumps off for this process and its children, because its memory may hold a key."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
