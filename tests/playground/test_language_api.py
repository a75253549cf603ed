"""The language over HTTP: each endpoint's form, its limits, and a page that documents them."""

import re
from urllib.parse import unquote

import pytest
from django.utils.html import escape

from dsl.check.program import check
from dsl.codes import CODES
from dsl.editor.vocabulary import ENTRIES

GOOD = """# kept
program p(x: f16[256, 512], w: f16[1024, 512], b: f32[1024]) -> f16[256, 1024] {
  y = gemm(x, w.T) { epilogue relu(acc + b[n]) }   # fused
  return y
}
"""
BAD = GOOD.replace("{ epilogue", "{ tile 256x256x64  epilogue").replace("relu", "reul")


def post(client, path, **body):
    return client.post(f"/api/{path}", body, content_type="application/json")


def test_every_mistake_has_a_place_a_page_and_where_there_is_one_a_fix_that_works(client):
    reply = post(client, "check", text=BAD).json()
    assert not reply["ok"] and [d["code"] for d in reply["diagnostics"]] == ["E209", "E303"]
    text = BAD
    for d in reversed(reply["diagnostics"]):
        fix, lines = d["fix"], text.split("\n")
        assert d["help"] and client.get(f"/language/{d['code']}").status_code == 200
        assert (d["line"], fix["line"], fix["end_line"]) == (3, 3, 3)
        lines[2] = lines[2][: fix["col"] - 1] + fix["text"] + lines[2][fix["end_col"] - 1 :]
        text = "\n".join(lines)
    assert post(client, "check", text=text).json()["ok"]


def test_format_keeps_comments_and_resolve_leaves_no_choice(client):
    laid = post(client, "format", text=GOOD.replace("  ", " ")).json()
    assert laid["ok"] and laid["text"].startswith("# kept\n") and "# fused" in laid["text"]
    assert check(laid["text"]).program == check(GOOD).program
    resolved = post(client, "resolve", text=GOOD).json()
    assert " tile " in resolved["text"] and check(resolved["text"]).ok
    for path in ("format", "resolve"):
        reply = post(client, path, text=BAD).json()
        assert reply["text"] is None and len(reply["diagnostics"]) == 2


def test_complete_offers_what_is_legal_at_a_place(client):
    line = GOOD.split("\n")[2]
    col = line.index("relu") + 1
    reply = post(client, "complete", text=GOOD, line=3, col=col).json()
    assert reply["start"] == col and {"acc", "b[n]", "gelu("} <= {o["label"] for o in reply["options"]}


def test_hover_says_what_stands_there(client):
    line = GOOD.split("\n")[2]
    reply = post(client, "hover", text=GOOD, line=3, col=line.index("gemm") + 2).json()
    assert (reply["word"], reply["kind"], reply["col"]) == ("gemm", "stage", line.index("gemm") + 1)
    named = post(client, "hover", text=GOOD, line=2, col=GOOD.split("\n")[1].index("b:") + 1).json()
    assert (named["use"], named["doc"]) == ("b: f32[1024]", "parameter")
    assert post(client, "hover", text=GOOD, line=99, col=1).json() is None


@pytest.mark.parametrize("word", ["E204", "e204", "tile", "gelu", "gemm"])
def test_explain_answers_codes_and_words(client, word):
    reply = client.get("/api/explain", {"word": word}).json()
    assert reply.get("code", reply.get("word", "")).lower() == word.lower()


def test_what_is_not_there_is_404_with_a_way_out(client):
    reply = client.get("/api/explain", {"word": "nothing"})
    assert reply.status_code == 404 and "/language" in reply.json()["fix"]


def test_the_words_are_the_language_s(client):
    reply = client.get("/api/words").json()
    assert {w for words in reply.values() for w in words} >= {word for _, word in ENTRIES}


@pytest.mark.parametrize("path", ["check", "format", "resolve", "compile", "complete", "hover"])
def test_a_text_is_bounded_and_never_breaks_the_server(client, path):
    place = {"line": 1, "col": 1} if path in ("complete", "hover") else {}
    assert post(client, path, text="x" * 65_537, **place).status_code == 413
    assert post(client, path, text="\0", **place).status_code == 422
    for text in ("(" * 60_000, "", GOOD * 40):
        assert post(client, path, text=text, **place).status_code == 200
    assert post(client, path).status_code == 422


@pytest.mark.parametrize("path", ["complete", "hover"])
@pytest.mark.parametrize("place", [(-1, -1), (0, 0), (10**9, 10**9), (3, 10**6)])
def test_a_place_outside_of_the_text_is_answered(client, path, place):
    assert post(client, path, text=GOOD, line=place[0], col=place[1]).status_code == 200


def test_who_asks_too_often_is_told_when_to_come_back(client, monkeypatch):
    from playground.access import limits

    monkeypatch.setattr(limits, "checks", limits.Limit(2, 60))
    assert [post(client, "format", text=GOOD).status_code for _ in range(3)] == [200, 200, 429]
    assert "Try again in" in post(client, "format", text=GOOD).json()["fix"]


def test_the_api_s_own_page_documents_each_form(client):
    schema = client.get("/api/openapi.json").json()
    for name in ("check", "format", "resolve", "compile", "complete", "hover"):
        post_ = schema["paths"][f"/api/{name}"]["post"]
        assert post_["summary"] and "language" in post_["tags"]
        assert "$ref" in str(post_["responses"]["200"]), f"{name} does not say what it answers"
    assert {"code", "line", "col", "help", "fix"} <= set(schema["components"]["schemas"]["Diagnostic"]["properties"])


def test_each_error_s_page_opens_its_wrong_program_and_the_repaired_one(client):
    for code, page in CODES.items():
        html = client.get(f"/language/{code}").content.decode()
        opened = [unquote(address) for address in re.findall(r'href="/#program=([^"]+)"', html)]
        assert opened == [page.wrong, page.right], code
        message = check(page.wrong).diagnostics[0].message
        assert escape(message.split("\n")[0]) in html, code
        reply = client.get("/api/explain", {"word": code}).json()
        assert (reply["wrong"], reply["right"]) == (page.wrong, page.right)


def test_a_refusal_s_page_has_no_wrong_program(client):
    html = client.get("/language/cute-k-major").content.decode()
    assert "only this back end cannot express it" in html and "#program=" not in html


def test_every_code_and_word_has_a_page(client):
    for code in CODES:
        assert CODES[code].title in client.get(f"/language/{code}").content.decode().replace("&#x27;", "'")
    for _, word in ENTRIES:
        assert client.get(f"/language/{word}").status_code == 200
