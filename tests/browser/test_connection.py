"""The page tells the truth about its connection, and comes back without losing or doubling an event."""

from playwright.sync_api import expect

from tests.browser.conftest import timeline


def test_a_dropped_socket_is_said_and_healed(app, open_page):
    session = app.submit(trials=8, eps=0.0, window=8)
    page = open_page("about:blank")
    sockets, cut = [], {"now": False}

    def relay(socket):
        if cut["now"]:
            socket.close(code=1011)
            return
        server = socket.connect_to_server()
        sockets.append(socket)
        server.on_message(socket.send)
        socket.on_message(server.send)

    page.route_web_socket("**/ws/s/**", relay)
    page.route("**/api/sessions/*/events*", lambda route: route.abort() if cut["now"] else route.continue_())
    page.goto(f"{app.url}/s/{session['id']}")
    expect(page.locator("#link-state")).to_have_text("Live")
    page.wait_for_selector("#timeline .trial", timeout=90_000)

    cut["now"] = True
    sockets[-1].close(code=1011)
    expect(page.locator("#link-state")).to_have_text("Reconnecting")
    page.wait_for_timeout(1500)
    expect(page.locator("#link-state")).to_have_text("Reconnecting")
    cut["now"] = False
    expect(page.locator("#link-state")).to_have_text("Ended", timeout=180_000)

    proposed = [
        e["data"]["trial"]
        for e in app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]
        if e["kind"] == "trial.proposed"
    ]
    expect(page.locator("#timeline .trial")).to_have_count(len(proposed))  # drawn in the next frame
    assert timeline(page) == proposed


def test_without_websockets_it_polls(app, open_page, finished):
    page = open_page("about:blank")
    page.route_web_socket("**/ws/s/**", lambda socket: socket.close(code=1011))
    page.goto(app.url + finished["view"])
    expect(page.locator("#link-state")).to_have_text("Ended", timeout=90_000)
    expect(page.locator("#loaded")).to_have_text(f"{len(finished['events'])} events")


def test_viewers_are_counted(app, open_page):
    session = app.submit("import torch\nwhile True: pass\n")
    pages = [open_page(f"/s/{session['id']}") for _ in range(2)]
    for page in pages:
        expect(page.locator("#viewers")).to_have_text("2")


FRAME = """([address, ms]) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.onload = () => setTimeout(() => { frame.remove(); done(); }, ms);
  frame.src = address;
  document.body.append(frame);
})"""


def test_a_page_that_is_left_before_its_socket_is_open_complains_of_nothing(open_page, finished, complaints):
    page = open_page("/learn/memory-bound")
    for ms in (3, 6, 9, 12, 15, 18, 22, 26, 30, 35, 40, 50):
        page.evaluate(FRAME, [f"/framed/{finished['id']}", ms])
    page.wait_for_timeout(500)
    assert not complaints, complaints
