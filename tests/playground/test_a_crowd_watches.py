"""A crowd costs one reading of the log and one encoding of each event, and each viewer gets every event in order."""

import asyncio
import json

import pytest
from django.db.backends.utils import CursorWrapper

from engine.session import events
from playground.access import limits
from playground.live import frames, hub, log, sockets, viewers, watched
from playground.live.frames import Outlet
from playground.models import Session
from tests.playground.crowd_of_viewers import broken, measure


def test_a_live_crowd_gets_everything_in_order_at_a_bounded_cost(house):
    """60 viewers and 5 that never read. Times are not checked here, since the machine may be busy."""
    row = measure(house, viewers=60, rate=40, seconds=2.5, silent=5)
    assert row["complete"] and row["events"] == 101, row
    assert not [fault for fault in broken(row) if fault.startswith(("cpu_ms", "mb"))], row


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1 << 20])
def test_a_frame_is_one_text_of_the_protocol(size):
    text = "é" * (size // 2) + "x" * (size % 2)
    built = frames.frame(text.encode())
    assert built[0] == 0x81 and len(built) - size == (2 if size < 126 else 4 if size < 1 << 16 else 10)
    assert frames.text_of(built) == text


class Socket:
    """A viewer without a network: what it was sent, and how it acknowledges."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue = asyncio.Queue()
        self.inbox: asyncio.Queue = asyncio.Queue()
        self.inbox.put_nowait({"type": "websocket.connect"})

    async def send(self, reply) -> None:
        self.sent.put_nowait(reply)

    async def watch(self, session_id: str, after: int = 0, address: str = "10.0.0.1") -> list[int] | int:
        """The numbers of all events until the log is complete; the code if the server closes."""
        scope = {"url_route": {"kwargs": {"session_id": session_id}}, "query_string": f"after={after}".encode()}
        task = asyncio.create_task(sockets.session_socket(scope | {"client": (address, 1)}, self.inbox.get, self.send))
        seen: list[int] = []
        while True:
            reply = await self.sent.get()
            code = reply.get("code") if reply["type"] == "websocket.close" else None
            message = json.loads(reply.get("text", "{}"))
            seen += [e["seq"] for e in message.get("events", ())]
            if "events" in message:
                self.say({"ack": seen[-1] if seen else 0})
            if code or message.get("ended"):
                self.inbox.put_nowait({"type": "websocket.disconnect"})
                await task
                return code or seen

    def say(self, message) -> None:
        self.inbox.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})


@pytest.fixture
def reads(monkeypatch):
    """The SELECTs of events, from now on."""
    statements, execute = [], CursorWrapper.execute

    def noted(self, sql, params=None):
        if sql.startswith("SELECT") and 'FROM "playground_sessionevent"' in sql:
            statements.append(sql)
        return execute(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", noted)
    monkeypatch.setattr(watched, "pages", watched.Pages())
    yield statements
    hub.poller.close()
    watched.readers.close()


def session_of(count: int) -> Session:
    session = Session.objects.create(title="t", spec={})
    lease = log.claim("e")
    log.append(lease, [(events.Progress(f"{n}"), {}) for n in range(count - 1)])
    log.append(lease, [(events.SessionEnded("done", "r", {}, 0, 0.0), {})])
    return session


@pytest.mark.django_db(transaction=True)
def test_a_burst_of_viewers_reads_the_log_once(reads):
    """100 come at once behind one address, which may open 30 wrong links: one look-up, and each page is read once."""
    session = session_of(900)
    reads.clear()

    async def burst():
        return await asyncio.gather(*(Socket().watch(session.id) for _ in range(100)))

    assert all(seen == list(range(1, 901)) for seen in asyncio.run(burst()))
    newest, before = 8, 900 - 512  # queries of 64 events each, and the pages of the events before them
    assert len(reads) <= newest + -(-before // 64) + 1


@pytest.mark.django_db(transaction=True)
def test_a_crowd_that_guesses_is_slowed_as_before(reads, monkeypatch):
    monkeypatch.setattr(limits, "guesses", limits.Guesses(30, 10))

    async def guess():
        return await asyncio.gather(*(Socket().watch(f"guess{n}") for n in range(60)))

    codes = asyncio.run(guess())
    assert codes.count(viewers.UNKNOWN) == 30 and codes.count(viewers.GUESSING) == 30


@pytest.mark.django_db(transaction=True)
def test_viewers_at_every_cursor_get_the_rest(reads):
    session = session_of(900)
    cursors = [0, 1, 63, 64, 65, 300, 387, 388, 389, 899, 900]

    async def some():
        return await asyncio.gather(*(Socket().watch(session.id, after=c) for c in cursors))

    assert asyncio.run(some()) == [list(range(c + 1, 901)) for c in cursors]


def test_memory_of_a_session_is_bounded():
    entry = watched.Watched("s")
    for _ in range(40):
        entry.grow([b"x" * 100_000] * 16, ended=False)
    recent = entry._recent
    assert entry.last_seq == 640 and sum(map(len, recent)) <= watched.RECENT_BYTES
    entry.grow([b"y"] * 2000, ended=True)
    assert len(entry._recent) == watched.RECENT_EVENTS and entry.last_seq == 2640
    assert entry.batch(0, 256, 1 << 20) is None, "it must be read first"
    assert entry.batch(2630, 256, 1 << 20)[1:] == (2640, 10, 10, True)
    assert entry.batch(2630, 3, 1 << 20)[1:] == (2633, 3, 3, False)
    assert entry.batch(2630, 0, 1 << 20).count == 0


def test_the_same_bytes_go_to_every_viewer_at_the_same_event():
    entry = watched.Watched("s")
    entry.grow([b'{"seq":%d}' % n for n in range(1, 11)], ended=False)
    assert entry.batch(4, 256, 1 << 20).frame is entry.batch(4, 64, 1 << 19).frame


def test_a_viewer_that_never_acknowledges_gets_a_window():
    written: list[bytes] = []
    entry = watched.Watched("s")
    viewer = viewers.Viewer(entry, Outlet(None), 0)
    viewer.outlet.write = written.append
    for n in range(25):
        entry.grow([b'{"seq":%d}' % (20 * n + k) for k in range(1, 21)], ended=False)
        viewer.pump()
    assert viewer.cursor == viewers.WINDOW_EVENTS and sum(map(len, written)) < 8000
    assert viewer.take('{"ack": 200}') is None and viewer.cursor == 200 + viewers.WINDOW_EVENTS
