"""An agent drives sessions over MCP: a real daphne, an engine on a script, the SDK's own client over HTTP and stdio."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.playground.conftest import ROOT, House
from tests.playground.mcp.agents import new_token, over_http, over_stdio, run

MODULE = "class Model: ..."
PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = House(tmp_path_factory.mktemp("house"))
    built.web(verbosity="1")
    built.engine()
    yield built
    built.close()


@pytest.fixture(scope="module")
def owner(house):
    return new_token(house)


def raw(house, body, path="/mcp", method="POST", **headers):
    """(status, headers, JSON) of one request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"http://127.0.0.1:{house.port}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            text = reply.read()
            return reply.status, reply.headers, json.loads(text) if text else None
    except urllib.error.HTTPError as e:
        text = e.read()
        return e.code, e.headers, json.loads(text) if text[:1] == b"{" else {"fix": "a page, as debug shows it"}


def calling(tool, **arguments):
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_from_the_first_look_to_a_verdict_and_the_stop(house, owner):
    async def drive():
        async with over_http(house, owner["token"]) as agent:
            tools = (await agent.client.list_tools()).tools
            assert {"reference", "report", "start_session", "propose", "wait_for_trial", "stop"} <= {
                t.name for t in tools
            }
            for tool in tools:
                assert len(tool.description) > 60 and tool.input_schema["type"] == "object"
                for name, field in tool.input_schema.get("properties", {}).items():
                    assert field.get("description"), (tool.name, name)
            assert "propose" in agent.client.instructions
            data, _ = await agent.call("start_session", module=MODULE, title="pace 0.05 trials 40", trials=40)
            session = data["session"]
            assert data["page"].endswith(f"/s/{session}") and owner["token"] not in str(data)
            proposed, _ = await agent.call("propose", session=session, candidate=PROGRAM, change="the first")
            assert proposed["trial"] == 1
            ended, _ = await agent.call("wait_for_trial", session=session, trial=1, timeout_s=30)
            assert (ended["state"], ended["outcome"], ended["verdict"]) == ("ended", "counted", "clean")
            assert ended["time"] == {"ms": 0.5, "kind": "predicted", "device": "H200"}
            assert (ended["baseline"]["name"], ended["speedup"]) == ("PyTorch eager", 2.0)
            profile, texts = await agent.call("profile", session=session, trial=1)
            assert (profile["trial"], profile["state"], profile["source"]) == (1, "ready", "profiler")
            assert texts == ["Profile of trial 1:\nwhere the time of trial 1 goes"]
            refused, _ = await agent.call("profile", session=session, trial=99)
            assert refused["error"] == "This session has no trial 99."
            best, texts = await agent.call("best", session=data["page"])
            assert best["verdict"] == "clean" and texts[0].startswith("Its text:\nprogram p")
            stopped, _ = await agent.call("stop", session=session)
            assert stopped["ended"] is True and "trials stay" in stopped["text"], stopped
            return session

    session = run(drive())
    end = house.wait(session, lambda s: s["state"] == "ended")["summary"]["end"]
    assert end["state"] == "stopped"
    log = house.get(f"/api/sessions/{session}/events?limit=2000")["events"]
    tried = [e["data"]["data"] for e in log if e["kind"] == "controlled" and e["data"]["action"] == "try"]
    assert [t["change"] for t in tried] == ["the first"], "the page shows what the agent handed in"


def test_a_trial_that_no_candidate_becomes_is_refused_at_once(house, owner):
    async def drive():
        async with over_http(house, owner["token"]) as agent:
            data, _ = await agent.call("start_session", module=MODULE, title="pace 5 trials 40", trials=40)
            session, began = data["session"], time.monotonic()
            early, _ = await agent.call("wait_for_trial", session=session, trial=1, timeout_s=60)
            assert (early["status"], early["error"]) == (404, "There is no trial 1. Trials so far: 0.")
            await agent.call("propose", session=session, candidate=PROGRAM)
            wrong, _ = await agent.call("wait_for_trial", session=session, trial=99, timeout_s=60)
            assert wrong["error"] == "There is no trial 99. Trials so far: 1." and "propose" in wrong["fix"]
            assert time.monotonic() - began < 30
            waits, _ = await agent.call("wait_for_trial", session=session, trial=1, timeout_s=0)
            assert waits["state"] == "waiting", "it was proposed, and no engine has begun it"
            await agent.call("stop", session=session)

    run(drive())


def test_a_program_that_the_check_rejects_becomes_no_trial(house, owner):
    wrong = PROGRAM.replace("return y", "return z")

    async def drive():
        async with over_http(house, owner["token"]) as agent:
            data, _ = await agent.call("start_session", module=MODULE, title="pace 0.05 trials 40", trials=40)
            session = data["session"]
            for language in ("", "program"):
                refused, _ = await agent.call("propose", session=session, candidate=wrong, language=language)
                checked, _ = await agent.call("check_program", program=wrong)
                assert refused["status"] == 422 and refused["error"].startswith("Line 1: "), refused
                assert "no trial" in refused["error"] and refused["diagnostics"] == checked["diagnostics"]
            await agent.call("stop", session=session)
            return session

    log = house.get(f"/api/sessions/{run(drive())}/events?limit=2000")["events"]
    assert not [e for e in log if e["kind"] == "controlled" and e["data"]["action"] == "try"]


def test_without_a_token_an_agent_reads_and_is_told_how_to_get_one(house):
    async def drive():
        async with over_http(house) as agent:
            _, (text,) = (await agent.call("reference"))[0], (await agent.call("reference", section="gemm"))[1]
            assert "tile MxNxK" in text
            data, _ = await agent.call("error_page", code="E204")
            assert data["code"] == "E204" and data["why"]
            wrong, _ = await agent.call("check_program", program=PROGRAM.replace("return y", "return z"))
            assert wrong["ok"] is False and wrong["diagnostics"][0]["line"] == 1
            right, texts = await agent.call("check_program", program=PROGRAM)
            assert right["ok"] and right["predicted"]["ms"] > 0 and "tile" in texts[0]
            devices, _ = await agent.call("devices")
            assert devices["engines"][0]["times"] == "predicted"
            assert "strategies" not in devices, "start_session has no choice of a strategy"
            listed, _ = await agent.call("example")
            assert "suite59" not in str(listed) and len(str(listed)) < 5000 and "mlp_gelu" in listed["described"]
            assert (await agent.call("example", name=listed["more_modules"].split()[0]))[1]
            for tool, more in (("start_session", {"module": MODULE}), ("report", {"module": MODULE})):
                refused, _ = await agent.call(tool, **more)
                assert refused["status"] == 401 and "/mine" in refused["fix"] and "claude mcp add" in refused["fix"]
            refused, _ = await agent.call("reference", section="gem")
            assert "Did you mean gemm?" in refused["fix"]
            refused, _ = await agent.call("propose", session="x")
            assert refused["error"].startswith("candidate:") and "change" in refused["fix"]
            refused, _ = await agent.call("explode")
            assert "propose" in refused["fix"]

    run(drive())


def test_a_wrong_or_revoked_token_gets_401(house):
    mine = new_token(house)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert raw(house, listing, **bearer(mine["token"]))[0] == 200
    status, headers, body = raw(house, listing, **bearer("Wx" * 16))
    assert status == 401 and headers["WWW-Authenticate"].startswith("Bearer") and "/mine" in body["fix"]
    session = raw(house, {"source": MODULE, "title": "trials 1"}, "/api/sessions", **bearer(mine["token"]))[2]
    key = {"X-Owner-Key": mine["key"]}
    assert raw(house, b"", f"/api/tokens/{mine['id']}", "DELETE", **key)[0] == 204
    assert raw(house, listing, **bearer(mine["token"]))[0] == 401
    (row,) = raw(house, b"", "/api/tokens", "GET", **key)[2]["tokens"]
    assert row["revoked"] and row["last_used"] and [s["id"] for s in row["sessions"]] == [session["id"]]


def test_another_owners_session_is_not_driven(house, owner):
    other = new_token(house)
    session = raw(house, {"source": MODULE, "title": "trials 1"}, "/api/sessions", **bearer(other["token"]))[2]["id"]

    async def drive():
        async with over_http(house, owner["token"]) as agent:
            for tool, more in (("propose", {"candidate": PROGRAM}), ("stop", {})):
                refused, _ = await agent.call(tool, session=session, **more)
                assert refused["status"] == 403
            seen, _ = await agent.call("status", session=session)
            assert seen["session"] == session, "whoever has the view link may look"

    run(drive())


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b'{"jsonrpc": "2.0"}', {}, 400),
        (b"[" * 5000, {}, 400),
        (b'{"a": "' + b"x" * (500 << 10) + b'"}', {}, 413),
        (b'{"a": NaN}', {}, 422),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Origin": "https://elsewhere.example"}, 403),
        (b"{}", {"Origin": "null"}, 403),
        (b"{}", {"Sec-Fetch-Site": "cross-site"}, 403),
        (b"{}", {"Host": "elsewhere.example"}, 400),
        (b"{}", {"Authorization": "Basic abc"}, 401),
    ],
)
def test_what_is_no_call_is_refused(house, body, headers, status):
    answered, _, refusal = raw(house, body, **headers)
    assert answered == status, refusal
    assert refusal.get("fix") or refusal["error"]["message"]


def test_the_address_takes_only_post(house):
    for method in ("GET", "DELETE", "PUT"):
        status, headers, _ = raw(house, b"", method=method)
        assert (status, headers["Allow"]) == (405, "POST")


def test_two_calls_at_once_are_both_answered(house, owner):
    async def drive():
        async with over_http(house, owner["token"]) as one, over_http(house, owner["token"]) as two:
            started = await asyncio.gather(
                *(a.call("start_session", module=MODULE, title="pace 0.1 trials 3") for a in (one, two, one))
            )
            names = [data["session"] for data, _ in started]
            assert len(set(names)) == 3
            for name in names:
                for _ in range(3):
                    await one.call("propose", session=name, candidate=PROGRAM)
            ended = await asyncio.gather(
                *(
                    a.call("wait_for_trial", session=n, trial=3, timeout_s=60)
                    for a, n in zip((two, one, one), names, strict=True)
                )
            )
            assert [data["outcome"] for data, _ in ended] == ["counted"] * 3

    run(drive())


def dropped(house, body, token):
    """Send a call, and close the connection before its answer."""
    text = json.dumps(body).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{house.port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", house.port), timeout=30)
    connection.sendall(head.encode() + text)
    return connection


def test_a_client_that_drops_leaves_nothing_behind(house):
    mine = new_token(house)
    session = raw(house, {"source": MODULE, "title": "pace 2 trials 40"}, "/api/sessions", **bearer(mine["token"]))[2]
    waiting = calling("wait_for_trial", session=session["id"], trial=40, timeout_s=120)

    def answer(timeout_s):
        call = calling("wait_for_trial", session=session["id"], trial=40, timeout_s=timeout_s)
        return raw(house, call, **bearer(mine["token"]))[2]["result"]

    connections, until = [], time.monotonic() + 20
    while not answer(0).get("isError"):  # until all eight places are taken
        assert time.monotonic() < until
        connections.append(dropped(house, waiting, mine["token"]))
        time.sleep(0.05)
    assert "wait already" in answer(0)["content"][0]["text"]
    for connection in connections:
        connection.close()
    while answer(0).get("isError"):
        assert time.monotonic() < until, "the calls of clients that have gone still wait"
        time.sleep(0.05)
    house.command(session, "stop")


def test_a_report_whose_client_dropped_ends_its_session(tmp_path):
    house = House(tmp_path)  # without an engine, so that the report cannot come
    try:
        house.web()
        mine = new_token(house)
        connection = dropped(house, calling("report", module=MODULE), mine["token"])

        def listed():
            (row,) = raw(house, b"", "/api/tokens", "GET", **bearer(mine["token"]))[2]["tokens"]
            return [s["state"] for s in row["sessions"]]

        for state in ("queued", "ended"):
            until = time.monotonic() + 30
            while listed() != [state]:
                assert time.monotonic() < until, (state, (house.var / "daphne.log").read_text())
                time.sleep(0.1)
            connection.close()
    finally:
        house.close()


def test_the_bridge_over_stdio_passes_calls_on(house, owner):
    async def drive():
        async with over_stdio(house, owner["token"]) as agent:
            assert "propose" in agent.client.instructions
            assert len((await agent.client.list_tools()).tools) == 13
            data, _ = await agent.call("start_session", module=MODULE, title="pace 0.05 trials 1")
            await agent.call("propose", session=data["session"], candidate=PROGRAM)
            ended, _ = await agent.call("wait_for_trial", session=data["session"], trial=1)
            assert ended["verdict"] == "clean"
            refused, _ = await agent.call("status", session="nothing")
            assert refused["status"] == 404

    run(drive())


def test_the_bridge_says_that_its_token_is_wrong(house):
    arguments = [sys.executable, "-m", "engine", "mcp", "--url", f"http://127.0.0.1:{house.port}"]
    environ = {**os.environ, "UCUTLASS_TOKEN": "Wx" * 16}
    done = subprocess.run(arguments, env=environ, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2 and "This owner token is not valid" in done.stderr and "/mine" in done.stderr
    assert "Traceback" not in done.stderr and "WxWx" not in done.stderr + done.stdout


def test_no_token_of_these_tests_is_in_a_log(house, owner):
    assert house.daphne is not None
    log = (house.var / "daphne.log").read_text()
    assert '"POST /mcp"' in log and owner["token"][:12] not in log and owner["key"][:12] not in log
