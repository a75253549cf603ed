"""A visitor's key is sealed for one request, and no other pair, session, claim or endpoint opens it."""

import dataclasses

import pytest
from nacl.public import PublicKey, SealedBox

from engine.llm.keys import BadKey, KeyPair, KeyRequest, Unopened, checked, seal

KEY = "sk-visitor-0123456789"
REQUEST = KeyRequest("session-one", 2, "https://models.example/v1")


def test_a_sealed_key_is_opened_by_its_pair_alone():
    pair = KeyPair()
    sealed = seal(KEY, REQUEST, pair.public_key)
    assert KEY.encode() not in sealed and REQUEST.session.encode() not in sealed
    assert pair.open(sealed, REQUEST) == KEY
    assert seal(KEY, REQUEST, pair.public_key) != sealed, "two boxes of one key do not show that it is the same"
    with pytest.raises(Unopened, match="another request"):
        KeyPair().open(sealed, REQUEST)


@pytest.mark.parametrize(
    ("field", "value"), [("session", "session-two"), ("claim", 3), ("endpoint", "https://other.example/v1")]
)
def test_a_key_for_another_request_is_refused(field, value):
    pair = KeyPair()
    sealed = seal(KEY, dataclasses.replace(REQUEST, **{field: value}), pair.public_key)
    with pytest.raises(Unopened, match=f"another {field}") as e:
        pair.open(sealed, REQUEST)
    assert KEY not in str(e.value)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]])
def test_damaged_bytes_are_refused(damage):
    pair = KeyPair()
    with pytest.raises(Unopened):
        pair.open(damage(seal(KEY, REQUEST, pair.public_key)), REQUEST)


@pytest.mark.parametrize("text", ["", "   ", "sk-7", "x" * 401, "with a space", "line\nend-of-it", "kéy-kéy-kéy"])
def test_a_text_that_is_no_key_is_refused_without_being_repeated(text):
    with pytest.raises(BadKey) as e:
        checked(text)
    assert not text.strip() or text not in str(e.value)
    pair = KeyPair()
    with pytest.raises(Unopened):
        pair.open(seal(text, REQUEST, pair.public_key), REQUEST)


@pytest.mark.parametrize("content", [b"[]", b"no JSON", b'{"key": 7}', b'{"session": "session-one"}', b"\xff"])
def test_a_box_that_holds_no_key_is_refused(content):
    pair = KeyPair()
    sealed = SealedBox(PublicKey(bytes.fromhex(pair.public_key))).encrypt(content)
    with pytest.raises(Unopened):
        pair.open(sealed, REQUEST)


def test_space_around_a_pasted_key_is_dropped():
    assert checked(f" {KEY}\n") == KEY


def test_a_pair_does_not_show_its_private_half():
    pair = KeyPair()
    assert len(bytes.fromhex(pair.public_key)) == 32
    assert bytes(pair._private).hex() not in repr(pair) + repr(vars(pair)) + pair.public_key
