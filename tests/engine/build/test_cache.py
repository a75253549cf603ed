"""The build cache: entries whole or absent, least recently used out first, several processes at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.build.cache import Cache, content_key, default_root


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path / "cache", limit=10_000)


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_what_is_put_is_found_again_by_any_process(cache):
    key = content_key("a", b"b")
    assert cache.get(key) is None
    cache.put(key, {"built.json": b"{}"})
    again = Cache(cache.root)
    assert (again.get(key) / "built.json").read_bytes() == b"{}"


def test_a_file_is_copied_in(cache, tmp_path):
    library = tmp_path / "a.so"
    library.write_bytes(b"machine code")
    entry = cache.put(content_key("x"), {"library.so": library})
    library.unlink()
    assert (entry / "library.so").read_bytes() == b"machine code"


def test_the_first_of_two_equal_entries_stays(cache):
    key = content_key("x")
    assert cache.put(key, {"n": b"1"}) == cache.put(key, {"n": b"2"})
    assert (cache.get(key) / "n").read_bytes() == b"1"


def test_keys_tell_parts_apart():
    assert content_key("ab", "c") != content_key("a", "bc")


def test_the_least_recently_used_entries_go_first(cache):
    keys = [content_key(str(i)) for i in range(5)]
    for i, key in enumerate(keys):
        age(cache.put(key, {"data": b"x" * 3000}), 100 - i)
    cache.get(keys[0])  # in use again
    assert cache.prune() == 3
    assert [cache.get(k) is not None for k in keys] == [True, False, False, False, True]
    assert cache.size() <= cache.limit * 0.8


def test_nothing_goes_below_the_limit(cache):
    cache.put(content_key("x"), {"data": b"x" * 9000})
    assert cache.prune() == 0 and cache.get(content_key("x"))


def test_shared_objects_count_and_go_too(cache):
    folder = cache.folder("quack")
    for i in range(5):
        (folder / f"{i}.o").write_bytes(b"x" * 3000)
        age(folder / f"{i}.o", 100 - i)
    (folder / "0.lock").write_bytes(b"")
    cache.prune()
    assert sorted(p.name for p in folder.iterdir()) == ["0.lock", "3.o", "4.o"]


def test_what_a_dead_process_left_half_written_is_swept(cache):
    left = cache.root / "aside" / "dead"
    left.mkdir()
    age(left, 7200)
    cache.prune()
    assert not left.exists()


def test_many_processes_write_and_prune_at_once(cache):
    code = (
        "import sys; from engine.build.cache import Cache, content_key\n"
        "c = Cache(sys.argv[1], limit=20_000)\n"
        "for i in range(60):\n"
        "    key = content_key(str(i))\n"
        "    folder = c.put(key, {'a': b'x' * 500, 'b': str(i).encode()})\n"
        "    try:\n"
        "        assert (folder / 'b').read_bytes() == str(i).encode() and (folder / 'a').stat().st_size == 500\n"
        "    except FileNotFoundError:\n"
        "        pass  # another process pruned it: gone whole\n"
        "    if i % 7 == 0: c.prune()\n"
    )
    env = {**os.environ, "PYTHONPATH": "."}
    runs = [subprocess.Popen([sys.executable, "-c", code, str(cache.root)], env=env) for _ in range(4)]
    assert [r.wait(60) for r in runs] == [0, 0, 0, 0]
    for entry in (cache.root / "entries").glob("*/*"):
        assert {p.name for p in entry.iterdir()} == {"a", "b"}
    assert not list((cache.root / "aside").iterdir())


def test_the_place_is_the_user_s_choice_or_the_platform_s_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("UCUTLASS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert default_root() == tmp_path / "xdg" / "ucutlass"
