"""Run the best trials of an ended session again: who may, what is refused, what the new session carries and says."""

import json

import pytest

from engine.record import NOT_COMPARABLE, NOT_REPRODUCED, OTHER, REPRODUCED, SAME, comparison
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from playground import conf, recordings
from playground.access import tokens
from playground.live import log
from playground.live.mailbox import Mailbox
from playground.live.running import Running
from playground.models import Session, Snapshot
from playground.sharing import again, snapshots
from tests.engine.counting import CountingDevice

pytestmark = pytest.mark.django_db
SECRET = "Yx" * 16


def post(client, path, body=None, **headers):
    return client.generic("POST", path, json.dumps(body or {}), content_type="application/json", headers=headers)


@pytest.fixture
def recording():
    return Session.objects.get(id=recordings.load(recordings.FOLDER / "linear_div_gelu.jsonl"))


@pytest.fixture
def predicted():
    """An ended session of the modelled device."""
    source = (conf.ROOT / "dsl/examples/batched.ucutlass").read_text()
    session = Session.objects.create(title="t", spec=SessionSpec(source=source, source_kind="program").to_dict())
    return work(session)


def work(session: Session, device=None) -> Session:
    """Run a queued session in an engine of this process."""
    lease = log.claim("an engine", "modelled:h200")
    assert lease is not None and lease.session_id == session.id

    def on(spec, **options):
        return run(spec, **{**options, "device": device or CountingDevice(), "teaches": False})

    Running(lease, on, "modelled:h200", Mailbox()).work()
    return Session.objects.get(id=session.id)


def begin(client, session) -> Session:
    reply = post(client, f"/api/sessions/{session.id}/again")
    assert reply.status_code == 201, reply.content
    return Session.objects.get(id=reply.json()["id"])


def test_a_stranger_starts_a_session_that_carries_the_candidates(client, recording):
    reply = post(client, f"/api/sessions/{recording.id}/again").json()
    started = Session.objects.get(id=reply["id"])
    record = snapshots.record_of(recording)
    trials = comparison.best_trials(record)
    carried = started.spec["options"]["candidates"]
    assert [one["trial"] for one in carried] == trials == [int(n) for n in started.provenance["again"]["recorded"]]
    assert carried[0]["text"] == record["texts"][record["fields"]["program"][str(trials[0])]["program"]]
    assert started.spec["source"] == recording.spec["source"] and started.spec["device"] == "auto"
    assert started.spec["seed"] != recording.spec["seed"] and started.spec["endpoint"] == ""
    assert started.control_hash == tokens.digest(reply["control_token"]) and started.state == Session.QUEUED
    page = client.get(f"/s/{started.id}").content.decode()
    assert 'id="again"' in page and recording.id in page


def test_a_session_that_runs_or_hides_its_source_is_refused(client, recording):
    path = f"/api/sessions/{recording.id}/again"
    Session.objects.filter(id=recording.id).update(recorded=False, control_hash=tokens.digest(SECRET))
    snapshot = post(client, f"/api/sessions/{recording.id}/snapshots", {"source": False}, **{"X-Control-Token": SECRET})
    bare = snapshot.json()["id"]
    reply = post(client, f"/api/sessions/{bare}/again")
    assert reply.status_code == 409 and reply.json()["error"] == again.WITHHELD
    assert "again-start" not in client.get(f"/s/{bare}").content.decode()
    Session.objects.filter(id=recording.id).update(state=Session.RUNNING)
    reply = post(client, path)
    assert reply.status_code == 409 and reply.json()["error"] == "This session has not ended."
    assert post(client, "/api/sessions/nobody/again").status_code == 404
    assert client.get(path).status_code == 404


def test_a_session_without_a_time_is_refused(client):
    refused = Session.objects.create(title="t", spec=SessionSpec(source="x = 1", source_kind="program").to_dict())
    refused = work(refused)
    reply = post(client, f"/api/sessions/{refused.id}/again")
    assert reply.status_code == 409 and reply.json()["error"] == again.NO_TRIAL
    assert "again-start" not in client.get(f"/s/{refused.id}").content.decode()


def test_the_limits_of_sessions_hold(client, recording, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "1")
    path = f"/api/sessions/{recording.id}/again"
    assert post(client, path).status_code == 201
    reply = post(client, path)
    assert reply.status_code == 429 and "waits already" in reply.json()["error"]


def test_nobody_starts_the_strategy_by_hand(client, recording):
    started = begin(client, recording)
    names = [one["name"] for one in client.get("/api/strategies").json()["strategies"]]
    assert "again" not in names
    body = {"source": "x", "strategy": "again", "options": started.spec["options"]}
    reply = post(client, "/api/sessions", body)
    assert reply.status_code == 422 and reply.json()["field"] == "strategy"
    page = client.get(f"/s/{started.id}/fork")
    fork = page.context["boot"]["fork"]["spec"]
    assert not {"strategy", "options", "source"} & fork.keys() and fork["classes"]


def test_a_prediction_runs_again_as_the_same_prediction(client, predicted):
    started = work(begin(client, predicted))
    assert started.state == Session.ENDED and started.summary["end"]["state"] == "done"
    reply = client.get(f"/api/sessions/{started.id}/again").json()
    assert reply["verdict"] == SAME and reply["of"] == predicted.id
    first = started.events.get(kind="session.started").data["options"]["candidates"][0]
    assert len(first["text"]) == 64, "the log has its name, not its text"
    Session.objects.filter(id=predicted.id).delete()
    assert client.get(f"/api/sessions/{started.id}/again").json() == reply | {"of": ""}


def test_a_run_on_the_modelled_device_does_not_compare_with_a_measurement(client, predicted):
    started = begin(client, predicted)
    about = started.provenance["again"]
    for facts in about["recorded"].values():
        facts |= {"kind": "measured", "device": "NVIDIA H200"}
    started.save()
    started = work(started)
    reply = client.get(f"/api/sessions/{started.id}/again").json()
    assert reply["verdict"] == NOT_COMPARABLE and "measured on NVIDIA H200" in reply["trials"][0]["why"]


def test_the_run_is_attached_to_a_snapshot_once(client, predicted):
    Session.objects.filter(id=predicted.id).update(control_hash=tokens.digest(SECRET))
    name = post(client, f"/api/sessions/{predicted.id}/snapshots", {}, **{"X-Control-Token": SECRET}).json()["id"]
    snapshot = Session.objects.get(id=name)
    for _ in range(2):  # a second one that confirms nothing takes no place
        started = work(begin(client, snapshot))
        runs = Snapshot.objects.get(session_id=name).record["reproductions"]
        assert [r["verdict"] for r in runs] == [SAME]
    started = begin(client, snapshot)
    trial = next(iter(started.provenance["again"]["recorded"].values()))
    trial["ms"] *= 2
    started.save()
    work(started)
    runs = Snapshot.objects.get(session_id=name).record["reproductions"]
    assert [r["verdict"] for r in runs] == [SAME, OTHER]
    page = client.get(f"/s/{name}").content.decode()
    assert f'href="/s/{started.id}"' in page and page.index(OTHER) < page.index(SAME), "the newest first"
    Session.objects.filter(id=started.id).delete()
    page = client.get(f"/s/{name}").content.decode()
    assert f'href="/s/{started.id}"' not in page and OTHER in page


def test_a_run_that_was_lost_goes_on_and_is_attached_once(client, predicted):
    """An engine that is killed after the first trial: another one goes on from the log."""
    Session.objects.filter(id=predicted.id).update(control_hash=tokens.digest(SECRET))
    name = post(client, f"/api/sessions/{predicted.id}/snapshots", {}, **{"X-Control-Token": SECRET}).json()["id"]
    started = begin(client, Session.objects.get(id=name))
    lease = log.claim("lost", "modelled:h200")
    stream = run(started.spec | {"device": "modelled:h200"}, device=CountingDevice(), teaches=False)
    for emitted in stream:
        log.append(lease, [(emitted.event, emitted.blobs)], t=emitted.t)
        if isinstance(emitted.event, events.TrialProposed):
            break
    stream.close()
    log.release(lease)
    ended = work(started)
    assert ended.summary["end"]["state"] == "done" and ended.events.filter(kind="resumed").exists()
    assert [r["verdict"] for r in Snapshot.objects.get(session_id=name).record["reproductions"]] == [SAME]


MEASURED = {
    "verdict": "clean", "cls": "f16", "kind": "measured", "ms": 1.0, "baseline": "eager_f16", "ratio": 2.0,
    "low": 1.98, "high": 2.02, "device": "NVIDIA H200", "model": "",
}  # fmt: skip


def steps(number, by="strategy", **more):
    time = {"device": {"name": "NVIDIA H200"}, "model": ""}
    judged = {k: MEASURED[k] for k in ("verdict", "cls", "kind", "ms", "baseline")} | {"speedup": 2.0}
    return [
        {"kind": "trial.proposed", "data": {"trial": number, "by": by}},
        {"kind": "trial.measured", "data": {"trial": number, "time": time, "ratio_low": 1.98, "ratio_high": 2.02}},
        {"kind": "trial.judged", "data": {"trial": number} | judged | more},
    ]


def test_an_owners_trial_is_not_taken_for_one_of_the_record():
    rows = [*steps(1, by="owner", verdict="wrong"), *steps(2)]
    (one,) = comparison.outcomes_of({7: MEASURED}, rows)
    assert one.trial == 7 and one.verdict == REPRODUCED
    (one,) = comparison.outcomes_of({7: MEASURED}, [*steps(1, verdict="wrong")])
    assert one.verdict == NOT_REPRODUCED


def test_what_did_not_run_says_nothing_of_the_original():
    end = {"kind": "session.ended", "data": {"reason": "Stopped by the owner."}}
    (one,) = comparison.outcomes_of({7: MEASURED}, [end])
    assert one.verdict == NOT_COMPARABLE and one.why == "it did not run here: Stopped by the owner."
    failed = {"kind": "trial.failed", "data": {"trial": 1, "cause": "owner", "reason": "stopped by the owner"}}
    (one,) = comparison.outcomes_of({7: MEASURED}, [steps(1)[0], failed, end])
    assert one.verdict == NOT_COMPARABLE
