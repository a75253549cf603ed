"""A reply is untrusted in every byte: reading one is bounded, and nothing unprintable passes."""

import json
import time
import tracemalloc
import unicodedata

import pytest

from engine.sandbox import channel
from engine.sandbox.traces import Printed

ESC, CSI, OVERRIDE, ISOLATE = "\x1b[2J", "\x9b1m", "\u202e", "\u2066"
UNSEEN = "\u200b\u2060\U000e0041\ufeff\xad\ufe0f\U000e0100\u3164\u200d\u200c\u034f\ufff9"


def line(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "text",
    [
        ESC + "x",
        "x\0",
        CSI + "x",
        OVERRIDE + "x",
        ISOLATE + "x",
        "\ud800x",
        "x\udfff",
        "x\r",
        "\u2028x",
        "\x7fx",
        UNSEEN + "x",
    ],
)
def test_nothing_unprintable_is_left_in_any_string_or_key(text):
    reply = {"error": {text: text, "list": [1, [text, {"deep": text}]]}}
    clean = channel.decode_reply(line(reply))
    left = json.dumps(clean, ensure_ascii=False)
    assert left.isprintable() and left.encode()
    rest = channel.printable(text)
    assert rest in ("x", "[2Jx", "1mx")
    assert clean["error"][rest] == rest and clean["error"]["list"] == [1, [rest, {"deep": rest}]]


def test_text_of_all_languages_stays():
    text = "μCUTLASS\n\t日本語 עברית العربية 👩\u200d🔬 é \u00a0"
    assert channel.decode_reply(line({"t": text}))["t"] == text


def test_no_character_without_width_is_left():
    every = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in ("Cf", "Cc", "Cs", "Zl", "Zp")]
    seen = {c for c in every if channel.printable(f"a{c}z") != "az"}
    assert {unicodedata.name(c, c) for c in seen - set("\n\t")} == {
        "ARABIC NUMBER SIGN", "ARABIC SIGN SANAH", "ARABIC FOOTNOTE MARKER", "ARABIC SIGN SAFHA", "ARABIC SIGN SAMVAT",
        "ARABIC NUMBER MARK ABOVE", "ARABIC END OF AYAH", "SYRIAC ABBREVIATION MARK", "ARABIC POUND MARK ABOVE",
        "ARABIC PIASTRE MARK ABOVE", "ARABIC DISPUTED END OF AYAH", "KAITHI NUMBER SIGN", "KAITHI NUMBER SIGN ABOVE",
    }  # fmt: skip


def test_joiners_stay_where_letters_need_them():
    assert (
        channel.printable("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645")
        == "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )
    assert channel.printable("\u0915\u094d\u200d\u0937") == "\u0915\u094d\u200d\u0937"
    for text in ("a\u200d\u0915", "\u0915\u200c", "\u200d\u0915", "a\u061c\u200d\u061cz", "\u0915\u200d\u200d\u0915"):
        assert not {"\u200c", "\u200d"} & set(channel.printable(text)), ascii(text)


def test_cleaning_takes_time_linear_in_the_length():
    for text in ("A" * (10 << 20), "A\n" * (5 << 20), "\u65e5\u200d" * (5 << 20), "\u0915\u200d" * (5 << 20)):
        start = time.process_time()
        channel.printable(text)
        assert time.process_time() - start < 5


def test_a_request_is_read_as_it_was_written():
    message = {"source": "x = 1\f\n\x1b" + "[," * 100, "much": [0] * 10}
    assert channel.decode(channel.encode(message, 1 << 20)) == message


def test_what_a_child_prints_is_cleaned():
    printed = Printed()
    printed.add(b"a\x1b[31mred\x00\x07\xc2\x9b\xe2\x80\xae\n\tb\xff")
    assert printed.text == "a[31mred\n\tb\ufffd"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"[" * 900 + b"]" * 900, "not a JSON object"),
        (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "levels"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "levels"),
        (b'{"a":[' + b"[]," * (10 << 20) + b"[]]}", "elements"),
        (b'{"a":{' + b'"b":1,' * (1 << 20) + b'"c":2}}', "elements"),
        (b'{"a":' + b"9" * (30 << 20) + b"}", "digits"),
        (b'{"a":0.' + b"9" * (30 << 20) + b"}", "too long"),
        (b'{"a":1e999}', "not finite"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":1,"a\\u0000":2}', "twice"),
        (b'{"a":"\xff"}', "not JSON"),
        (b'{"a":"\xed\xa0\x80"}', "not JSON"),
        (b'\xff\xfe{\0}\0', "not JSON"),
        (b'{"a":"' + b"\\ud800" * 1000, "not JSON"),
        (b"", "not JSON"),
    ],
    ids=lambda v: v[:24].decode(errors="replace") if isinstance(v, bytes) else v,
)  # fmt: skip
def test_a_forged_reply_is_refused_in_bounded_time_and_memory(reply, why):
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(channel.Garbled, match=why) as caught:
            channel.decode_reply(reply)
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5
    assert len(str(caught.value)) < 300 and str(caught.value).isprintable()


def test_an_eighth_of_the_largest_reply_takes_an_eighth_of_its_memory():
    many = channel.MAX_ELEMENTS // 16
    reply = b'{"a":[' + b"{}," * (many - 1) + b"{}]}"
    tracemalloc.start()
    try:
        assert len(channel.decode_reply(reply)["a"]) == many
        assert tracemalloc.get_traced_memory()[1] < 150 << 17
    finally:
        tracemalloc.stop()


def test_a_reply_of_one_long_string_is_read():
    text = "A" * (20 << 20)
    assert channel.decode_reply(line({"library": text}))["library"] == text
