"""A room where something of the browser's fails: an answer cannot be sent, nothing can be stored, no WebSocket comes
through."""

from playwright.sync_api import expect

from tests.browser.test_rooms import join, opened, pick, tile


def test_an_answer_that_could_not_be_sent_is_sent_later_or_its_student_hears_why(app, open_page):
    room = opened(app, title="Monday", lessons=["roofline"])
    wall = open_page(room["teacher_url"].removeprefix(app.url))
    ada = join(open_page, room["code"], "Ada")
    ada.locator('[data-step="which"]').click()
    ada.route("**/answers", lambda route: route.abort())
    pick(ada, "sum")
    expect(ada.locator("#unsent")).to_contain_text("Answers not sent yet: 1.")
    ada.unroute("**/answers")
    expect(tile(wall, 1).locator(".mark.wrong")).to_have_count(1)
    expect(ada.locator("#unsent")).to_be_hidden()

    ada.route("**/answers", lambda route: route.abort())
    pick(ada, "longer")
    expect(ada.locator("#unsent")).to_be_visible()
    ada.goto(f"{app.url}/learn")
    ada.unroute("**/answers")
    wall.get_by_role("button", name="End…").click()
    wall.get_by_role("button", name="End the room").click()
    expect(wall.locator("#state")).to_contain_text("ended")
    ada.goto(f"{app.url}/w/{room['code']}")
    expect(ada.locator("#error")).to_contain_text("could not send before is refused now: The teacher ended this room.")


BLOCKED = """
Object.defineProperty(window, "localStorage", { get() { throw new DOMException("blocked", "SecurityError"); } });
"""


def test_a_room_works_where_the_browser_stores_nothing(app, open_page, complaints):
    room = opened(app, title="Monday", lessons=["roofline"])

    def blocked(path):
        page = open_page("/w")
        page.add_init_script(BLOCKED)
        page.goto(app.url + path)
        return page

    wall, ada = blocked(room["teacher_url"].removeprefix(app.url)), blocked(f"/w/{room['code']}")
    ada.get_by_label("Nickname").fill("Ada")
    ada.keyboard.press("Enter")
    ada.locator('[data-step="which"]').click()
    pick(ada, "longer")
    expect(ada.locator('.outcome [data-code="right"]')).to_be_visible()
    expect(tile(wall, 1).locator(".mark.right")).to_have_count(1)
    wall.locator("body").press("a")
    expect(tile(wall, 1).locator(".tile-name")).to_have_text("Seat 1")
    wall.reload()
    expect(tile(wall, 1)).to_be_visible()  # its address kept the token
    lesson = blocked("/learn/roofline?step=which")
    pick(lesson, "longer")
    expect(lesson.locator('.outcome [data-code="right"]')).to_be_visible()
    assert not complaints, complaints


def test_a_room_works_where_no_websocket_gets_through(app, open_page):
    room = opened(app, title="Monday", lessons=["roofline"], trials=1)

    def shut(page, path):
        page.route_web_socket("**/ws/w/*", lambda ws: ws.close())
        page.goto(app.url + path)
        return page

    wall = shut(open_page("/w"), room["teacher_url"].removeprefix(app.url))
    ada = shut(open_page("/w"), f"/w/{room['code']}")
    ada.get_by_label("Nickname").fill("Ada")
    ada.keyboard.press("Enter")
    for page in (wall, ada):
        expect(page.locator("#link-state")).to_have_text("Live")
    ada.locator('[data-step="which"]').click()
    pick(ada, "sum")
    expect(tile(wall, 1).locator(".mark.wrong")).to_have_count(1)
    ada.locator("#run summary").click()
    ada.get_by_role("button", name="Run", exact=True).click()
    expect(ada.locator("#my-session a")).to_be_visible()
    expect(tile(wall, 1).locator(".tile-gap")).to_be_visible()
    wall.locator("body").press("p")
    expect(ada.locator("#state")).to_contain_text("paused")
