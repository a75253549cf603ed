"""The error page shows what a message has between backticks as code, and everything else as text."""

from playground.access import answers


def test_parts_between_backticks_are_code_and_nothing_is_markup(rf):
    request = rf.get("/s/x/export")
    page = answers.error(request, 409, "This cannot be exported", "Write `<b>`, not <i>. See `a & b`.").content.decode()
    assert "<p>Write <code>&lt;b&gt;</code>, not &lt;i&gt;. See <code>a &amp; b</code>.</p>" in page


def test_a_backtick_without_a_pair_stays(rf):
    page = answers.error(rf.get("/s/x"), 404, "Not here", "one ` and <b>").content.decode()
    assert "<p>one ` and &lt;b&gt;</p>" in page
