"""Which files a pasted text may be reported for."""

import subprocess
import sys

SCRIPT = """
import builtins, linecache, os, sys, tokenize, traceback
from engine.sandbox import watch
from engine.sandbox.channel import PASTED

sys.path[:] = [p for p in sys.path if not {folder!r}.startswith(p)]
seen = watch.Watch()
seen.on()
exec(compile({text!r}, PASTED, "exec"))
print([b.code for b in seen.seen])
"""


def reported(folder, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(folder=str(folder), text=text)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_traceback_reads_the_code_around_the_text(tmp_path):
    around = tmp_path / "around.py"
    around.write_text("1\n")
    for text in (
        f"linecache.getline({str(around)!r}, 1)",
        f"exec(compile('traceback.format_stack()', {str(around)!r}, 'exec'))",
    ):
        assert reported(tmp_path, text) == "[]", text


def test_a_text_that_opens_the_same_file_is_reported(tmp_path):
    (tmp_path / "around.py").write_text("1\n")
    (tmp_path / "secret").write_text("1\n")
    for text in (
        f"try:\n    open({str(tmp_path / 'around.py')!r})\nexcept OSError:\n    pass",
        f"linecache.getline({str(tmp_path / 'secret')!r}, 1)",
        f"try:\n    tokenize.open({str(tmp_path / 'around.py')!r})\nexcept OSError:\n    pass",
    ):
        assert reported(tmp_path, text) == "['sandbox_file']", text
