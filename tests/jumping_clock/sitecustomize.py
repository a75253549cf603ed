"""Python runs this at its start if its folder is on PYTHONPATH: this process's clock is the machine's plus the seconds
in the file that TESTS_CLOCK names. Monotonic clocks stay, as they do when a clock is set.
"""

import datetime
import os
import time

_path = os.environ.get("TESTS_CLOCK", "")
_time, _monotonic, _datetime = time.time, time.monotonic, datetime.datetime
_known = [0.0, 0.0]  # when the file was read, and what it said


def offset() -> float:
    if _monotonic() - _known[0] > 0.05:
        try:
            with open(_path) as f:
                _known[:] = [_monotonic(), float(f.read() or 0)]
        except (OSError, ValueError):
            pass
    return _known[1]


class _Kind(type(_datetime)):
    def __instancecheck__(cls, value):
        return isinstance(value, _datetime)


class Jumping(_datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz=None):
        return _datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return _datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


if _path:
    time.time = lambda: _time() + offset()
    time.time_ns = lambda: int(time.time() * 1e9)
    datetime.datetime = Jumping
