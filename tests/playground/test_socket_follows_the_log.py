"""A viewer sees every event once, in order, whenever it comes, however often it reconnects. Real daphne, real TCP."""

from urllib.parse import quote

import pytest

from tests.playground.websocket import Closed, WebSocket


@pytest.fixture(scope="module")
def ended(house):
    """A session of 153 events that has ended, or of more if a busy machine kept its engine from renewing its lease."""
    session = house.submit("pace 0 trials 50", trials=50)
    house.engine()
    house.wait(session["id"], lambda s: s["state"] == "ended")
    return session["id"]


@pytest.fixture(scope="module")
def last(house, ended):
    """The number of its last event."""
    last = house.get(f"/api/sessions/{ended}")["last_seq"]
    assert last >= 153
    return last


def test_a_late_viewer_gets_the_whole_log(house, ended, last):
    with WebSocket(house.port, f"/ws/s/{ended}") as socket:
        assert [e["seq"] for e in socket.events()] == list(range(1, last + 1))


def test_an_event_has_seq_kind_time_and_data(house, ended):
    with WebSocket(house.port, f"/ws/s/{ended}") as socket:
        first = socket.events()[0]
    assert set(first) == {"seq", "kind", "t", "data"}
    assert first["kind"] == "session.started" and first["data"]["title"].startswith("pace")


def test_a_reconnect_gets_what_is_missing_and_nothing_twice(house, ended, last):
    with WebSocket(house.port, f"/ws/s/{ended}") as socket:
        seen = [e["seq"] for e in socket.until("events")["events"]]
    assert 0 < len(seen) < last
    with WebSocket(house.port, f"/ws/s/{ended}?after={seen[-1]}") as socket:
        seen += [e["seq"] for e in socket.events()]
    assert seen == list(range(1, last + 1))


def test_a_viewer_that_has_everything_is_told_that_it_ended(house, ended, last):
    with WebSocket(house.port, f"/ws/s/{ended}?after={last}") as socket:
        assert socket.until("events") == {"events": [], "last": last, "ended": True}


def test_a_cursor_beyond_the_end_is_the_end(house, ended, last):
    with WebSocket(house.port, f"/ws/s/{ended}?after=99999") as socket:
        assert socket.until("events") == {"events": [], "last": last, "ended": True}


def test_two_viewers_see_the_same_live_and_know_of_each_other(house, ended):
    session = house.submit("pace 0.02 trials 10")
    with WebSocket(house.port, f"/ws/s/{session['id']}") as one:
        # The handshake is answered before the server has looked the session up: without waiting for the first one's
        # place, the second one may be the first to be counted.
        assert one.receive() == {"viewers": 1}
        with WebSocket(house.port, f"/ws/s/{session['id']}") as two:
            assert two.receive() == {"viewers": 2}
            first, second = one.events(), two.events()
    assert first == second and len(first) == 33


def test_the_number_of_viewers_falls_when_one_leaves(house):
    """Of a session of its own: the viewers of the tests before leave `ended` when the server notices."""
    path = f"/ws/s/{house.submit('waits for nobody')['id']}"
    with WebSocket(house.port, path) as one:
        with WebSocket(house.port, path):
            while one.until("viewers")["viewers"] != 2:
                pass
        assert one.until("viewers") == {"viewers": 1}


def test_who_waits_is_told_the_truth_about_it(house, ended):
    """There is an engine, that of `ended`, and it has no GPU. Nobody else waits, however the tests before ended."""
    for session in house.started:
        house.post(
            f"/api/sessions/{session['id']}/commands", {"kind": "stop", "control_token": session["control_token"]}
        )
        house.wait(session["id"], lambda s: s["state"] == "ended")
    waiting = house.submit("waits", device="cuda")
    with WebSocket(house.port, f"/ws/s/{waiting['id']}") as socket:
        message = socket.until("state")
    assert (message["state"], message["queue"], message["engine"]) == ("queued", 1, None)
    assert "GPU" in message["text"]
    house.post(f"/api/sessions/{waiting['id']}/commands", {"kind": "stop", "control_token": waiting["control_token"]})


def test_an_unknown_session_is_closed_with_a_code_that_the_page_knows(house):
    for path in ("/ws/s/nobody", "/ws/elsewhere"):
        with WebSocket(house.port, path) as socket, pytest.raises(Closed) as closed:
            socket.until("events")
        assert closed.value.code == 4404


@pytest.mark.parametrize(
    "message",
    [
        b"{",
        b"[]",
        b'"ack"',
        b'{"ack": "7"}',
        b'{"ack": -1}',
        b'{"ack": true}',
        b'{"stop": 1}',
        b"[" * 1000,
        b"x" * 2000,
    ],
)
def test_what_cannot_be_read_closes_with_a_clear_code(house, ended, message):
    with WebSocket(house.port, f"/ws/s/{ended}") as socket:
        socket.send(message)
        assert socket.until("error")["error"]
        with pytest.raises(Closed) as closed:
            socket.receive()
    assert closed.value.code == 4400


def test_binary_is_refused(house, ended):
    with WebSocket(house.port, f"/ws/s/{ended}") as socket:
        socket.send(b"\x00\x01", opcode=2)
        with pytest.raises(Closed) as closed:
            while True:
                socket.receive()
    assert closed.value.code == 4400


@pytest.mark.parametrize("after", ["-1", "x", "1e3", "9" * 30, "%F0%9F%98%80", "٣"])
def test_a_cursor_that_is_no_number_is_refused(house, ended, after):

    with (
        WebSocket(house.port, f"/ws/s/{ended}?after={quote(after, safe='%')}") as socket,
        pytest.raises(Closed) as closed,
    ):
        socket.until("events")
    assert closed.value.code == 4400


def test_the_control_token_gives_nothing_on_the_socket(house, ended):
    """No order travels over the socket: not even the owner's."""
    session = house.submit("pace 0.1 trials 3")
    with WebSocket(house.port, f"/ws/s/{session['id']}") as socket:
        socket.send({"kind": "stop", "control_token": session["control_token"]})
        with pytest.raises(Closed) as closed:
            while True:
                socket.receive()
    assert closed.value.code == 4400
    ended = house.wait(session["id"], lambda s: s["state"] == "ended")
    assert ended["summary"]["end"]["state"] == "done"
