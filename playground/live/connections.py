"""The database connections of long-lived threads: kept between reads, and closed when they break.

Django closes a connection at the end of a request. A poller, a reader for sockets, a heartbeat and an engine's loop
have no such end. Opening a connection for each read costs more than the read, and a broken connection must not stay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import InterfaceError, OperationalError, connection

AWAY = (OperationalError, InterfaceError)  # the database does not answer, or dropped the connection

P, T = ParamSpec("P"), TypeVar("T")


def close_if_broken() -> None:
    """Close this thread's connection if a query failed and it does not answer. The next query opens another."""
    if connection.errors_occurred:
        if connection.connection is not None and connection.is_usable():
            connection.errors_occurred = False
        else:
            connection.close()


class Readers:
    """`threads` threads, each with one open connection. `@readers` makes a function that only reads the database run on
    one of them, to be awaited."""

    def __init__(self, threads: int, name: str):
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, name)

    def __call__(self, function: Callable[P, T]) -> SyncToAsync[P, T]:
        def read(*args: P.args, **kwargs: P.kwargs) -> T:
            was_open = connection.connection is not None
            try:
                return function(*args, **kwargs)
            except AWAY:
                connection.close()
                if not was_open:  # a new connection fails too: the database is away
                    raise
                return function(*args, **kwargs)  # the old connection was stale, and a read may be repeated

        return sync_to_async(read, thread_sensitive=False, executor=self._pool)

    def close(self) -> None:
        """Close the connection of every thread. The threads open new ones when needed."""
        together = threading.Barrier(self.threads)

        def one() -> None:
            together.wait(10)  # so that each thread gets one of these
            connection.close()

        for task in [self._pool.submit(one) for _ in range(self.threads)]:
            task.result()
