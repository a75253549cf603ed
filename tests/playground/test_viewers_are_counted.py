"""Each viewer knows how many watch, however quickly others come and go."""

import asyncio
import json

import pytest

from playground.live import frames, hub
from playground.live.hub import Hub
from playground.live.viewers import Viewer
from playground.live.watched import Watched


class Outlet:
    """Collects what is sent to a viewer, who reads at once."""

    unsent = 0

    def __init__(self):
        self.sent = []

    def write(self, built):
        self.sent.append(json.loads(frames.text_of(built)))

    def close(self, code):
        raise AssertionError(code)

    @property
    def counts(self):
        return [message["viewers"] for message in self.sent if "viewers" in message]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(hub, "COUNT_EVERY", 0.02)


def two_join():
    """The crowd, and two viewers of one session in the order in which they came."""
    crowd, entry = Hub(), Watched("s", ended=True)
    viewers = [Viewer(entry, Outlet(), 0) for _ in range(2)]
    for viewer in viewers:
        crowd.join(viewer)
    return crowd, *viewers


async def settled(crowd, outlet, counts):
    for _ in range(500):
        if outlet.counts == counts:
            await asyncio.sleep(0.05)  # nothing more follows
            break
        await asyncio.sleep(0.01)
    assert outlet.counts == counts and crowd.watched


def test_one_who_leaves_before_the_next_count_is_missed_by_the_one_who_stays():
    """The one who stays came second and was sent 2; the number before and after is 1."""

    async def play():
        crowd, gone, stays = two_join()
        crowd.leave(gone)
        await settled(crowd, stays.outlet, [2, 1])
        crowd.leave(stays)

    asyncio.run(play())


def test_a_number_that_a_viewer_knows_is_not_sent_again():
    async def play():
        crowd, first, second = two_join()
        await settled(crowd, first.outlet, [1, 2])
        assert second.outlet.counts == [2]
        for viewer in (first, second):
            crowd.leave(viewer)

    asyncio.run(play())
