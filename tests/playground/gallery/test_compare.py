"""Two sessions side by side, for whoever has the view links of both, and for nobody else."""

import json
import time

import pytest

from engine.session import recording
from playground import recordings
from playground.access import tokens
from playground.access.answers import Refused
from playground.gallery.compare import differing, name_of
from playground.models import Session
from playground.sharing import snapshots
from tests.playground import script

pytestmark = pytest.mark.django_db
SECRET = "Yx" * 16


def again(name, folder, /, **changed):
    """A recording loaded once more as another session: of each trial's time, `ms` is multiplied, `driver`, `device`
    and `kind` are replaced; `source` is added to the module."""
    lines = (recordings.FOLDER / f"{name}.jsonl").read_text().splitlines()
    rows, blobs = [json.loads(line) for line in lines[:-1]], json.loads(lines[-1])
    by = changed.get("ms", 1.0)
    for row in rows:
        data = row["data"]
        time_of = data.get("time") or {}
        if row["kind"] == "trial.measured":
            for field in ("ms", "low", "high"):
                time_of[field] *= by
        if row["kind"] == "trial.judged":
            data["ms"] *= by
        if isinstance(time_of.get("device"), dict):
            time_of["device"] |= {k: changed[k] for k in ("driver", "name") if k in changed}
        if row["kind"] == "session.started" and "source" in changed:
            text = blobs["blobs"].pop(data["source"]) + changed["source"]
            data["source"], texts = script.blob(text)
            blobs["blobs"] |= texts
    path = folder / f"{name}_again.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, blobs])) + "\n")
    assert recording.read(path).rows
    return recordings.load(path)


@pytest.fixture
def first():
    return recordings.load(recordings.FOLDER / "linear_div_gelu.jsonl")


def page(client, a, b, **more):
    reply = client.get("/gallery/compare", {"a": a, "b": b, **more})
    assert reply.status_code == 200, reply.content[:300]
    return reply.content.decode()


def test_the_same_module_on_the_same_machine_has_a_ratio_by_class(client, first, tmp_path):
    html = page(client, first, again("linear_div_gelu", tmp_path, ms=0.5))
    assert "No ratio is given" not in html
    assert html.count("B is 2.00 times as fast (95% interval") == 2
    assert html.count("the same in both") == 2 and "not in turns" in html


def test_equal_times_are_no_clear_difference(client, first, tmp_path):
    html = page(client, first, again("linear_div_gelu", tmp_path, ms=1.0001))
    assert "No clear difference: A takes" in html and "times as fast" not in html


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"driver": "570.1"}, "A&#x27;s driver is 580.159.04, B&#x27;s is 570.1."),
        ({"name": "NVIDIA H100"}, "A&#x27;s device is NVIDIA H200, B&#x27;s is NVIDIA H100."),
        ({"source": "\n# another\n"}, "They optimise different modules."),
    ],
)
def test_without_equal_conditions_it_says_why_there_is_no_ratio(client, first, tmp_path, changed, reason):
    html = page(client, first, again("linear_div_gelu", tmp_path, **changed))
    assert "No ratio is given" in html and reason in html and "times as fast" not in html


def test_measured_and_predicted_have_no_ratio(client, first):
    html = page(client, first, recordings.load(recordings.FOLDER / "agent_residual.jsonl"))
    assert "A&#x27;s times are measured, B&#x27;s are predicted." in html and "times as fast" not in html


def test_sessions_without_a_common_class_or_without_a_program_say_so(client, first):
    kernels = recordings.load(recordings.FOLDER / "kernels_by_hand.jsonl")
    agent = recordings.load(recordings.FOLDER / "agent_residual.jsonl")
    shared_none = "They share no precision class: A has programs in float32, TF32, B in float16."
    assert shared_none in page(client, kernels, agent)
    queued = Session.objects.create(title="queued", spec={"source": "x", "source_kind": "module"})
    assert "B has no program whose time counts." in page(client, first, queued.id)


def test_it_shows_programs_limits_verdicts_and_history_of_both(client, first):
    html = page(client, first, recordings.load(recordings.FOLDER / "kernels_by_hand.jsonl"), **{"class": "tf32"})
    assert html.count("program module(") == 0, "words of a program stand in colour"
    for text in ("<mark>", "0.278\u00a0ms", "83.9\u00a0µs", "Best trial in TF32", "Evidence", "History of the fastest"):
        assert text in html
    assert html.count(f'href="/s/{first}?trial=4"') == 2, "the best trial, and in the history"


def test_only_the_lines_that_differ_are_marked():
    a, b = differing("same\n<a>\nsame", "same\nb\nc\nsame", lambda line: line.replace("<", "&lt;"))
    assert a == "same\n<mark>&lt;a></mark>\nsame" and b == "same\n<mark>b</mark>\n<mark>c</mark>\nsame"


@pytest.mark.parametrize("lines", [400, 1000, 60_000])
def test_texts_made_to_be_slow_are_marked_or_shown_in_time(lines):
    one = "\n".join(f"x\n{i}" for i in range(lines // 2))
    other = "\n".join(f"x\n{-i}" for i in range(lines // 2))
    began = time.process_time()
    differing(one, other, str)
    assert time.process_time() - began < 2


# ---- who may see it ----


@pytest.fixture
def private():
    """A session of somebody's, which only its view link opens, and its control link commands."""
    loaded = Session.objects.get(id=recordings.load(recordings.FOLDER / "agent_swiglu.jsonl"))
    Session.objects.filter(id=loaded.id).update(recorded=False, control_hash=tokens.digest(SECRET))
    return Session.objects.get(id=loaded.id)


def test_a_strangers_private_session_needs_its_link(client, first, private):
    assert "agent swiglu" in page(client, first, private.id)
    for guess in (private.id[:-1] + "x", private.title, str(private.pk)[:10], "agent_swiglu"):
        reply = client.get("/gallery/compare", {"a": first, "b": guess})
        assert reply.status_code == 404 and private.id not in reply.content.decode()
        assert client.get(f"/s/{guess}").status_code == 404, "the same answer as on its own page"


def test_a_deleted_session_is_compared_no_more(client, first, private):
    name = private.id
    page(client, first, name)
    private.delete()
    assert client.get("/gallery/compare", {"a": first, "b": name}).status_code == 404


@pytest.mark.parametrize("link", [f"/c/{SECRET}", f"http://testserver/c/{SECRET}", f"c/{SECRET}/", f"%2Fc%2F{SECRET}"])
def test_a_control_link_is_refused_and_not_shown_again(client, first, private, link):
    reply = client.get("/gallery/compare", {"a": first, "b": link})
    html = reply.content.decode()
    assert reply.status_code == 400 and "This is a control link" in html and SECRET not in html
    bare = client.get("/gallery/compare", {"a": first, "b": SECRET})
    assert bare.status_code == 404 and SECRET not in bare.content.decode()


def test_results_shared_without_their_source_show_no_text_of_it(client, first, private):
    copy = snapshots.take(private, source=False, transcript=False)
    html = page(client, first, copy.id)
    assert "Its owner shares the results without the source." in html
    assert private.id not in html and "Gated MLP" not in html and "gate and up" not in html
    assert "agent swiglu" not in html and "Results without their source" in html


def test_a_snapshot_is_compared_with_its_original_by_the_hash_of_the_module(client, private):
    copy = snapshots.take(private, source=False, transcript=False)
    html = page(client, private.id, copy.id)
    assert "No ratio is given" not in html and "A takes 1.00 times as long as B" in html


def test_the_page_is_kept_and_told_by_nobody(client, first, private):
    reply = client.get("/gallery/compare", {"a": first, "b": private.id})
    assert reply["Referrer-Policy"] == "no-referrer" and "no-store" in reply["Cache-Control"]
    assert reply["X-Robots-Tag"] == "noindex" and SECRET not in reply.content.decode()


def test_what_a_visitor_wrote_is_escaped(client, first):
    spec = {"source": "<b>x</b>", "source_kind": "module"}
    other = Session.objects.create(title="<b>t</b>", spec=spec)
    assert "<b>t</b>" not in page(client, first, other.id) and "<b>x</b>" not in page(client, first, other.id)
    html = client.get("/gallery/compare", {"a": '"><b>t</b>', "b": ""}).content.decode()
    assert "<b>t</b>" not in html


# ---- links ----


@pytest.mark.parametrize(
    ("link", "name"),
    [
        ("", ""), ("  abc ", "abc"), ("/s/abc", "abc"), ("http://here/s/abc?trial=3#x", "abc"), ("/s/abc/fork", "abc"),
        ("http://here/embed/abc?pane=roofline", "abc"), ("/card/abc.png", "abc"), ("/", ""), ("/s/", "s"),
    ],
)  # fmt: skip
def test_a_link_or_its_name_is_taken(link, name):
    assert name_of(link) == name


@pytest.mark.parametrize("link", ["/c/abc", "a%00b", "/s/%00"])
def test_a_control_link_and_what_is_no_text_have_no_name(link):
    with pytest.raises(Refused):
        name_of(link)


def test_without_two_sessions_there_is_a_form(client, first):
    for query in ({}, {"a": first}, {"a": first, "b": " "}):
        reply = client.get("/gallery/compare", query)
        assert reply.status_code == 200 and "View link of another session" in reply.content.decode()
    html = client.get("/gallery/compare", {"a": first, "b": f"/s/{first}"}).content.decode()
    assert "Both links are of the same session" in html
    assert client.get("/gallery/compare", {"a": "x" * 500, "b": first}).status_code == 404
