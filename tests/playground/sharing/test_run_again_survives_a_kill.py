"""`kill -9` of the engine in a session that runs another one again: the next engine ends it and doubles no trial."""

from tests.playground.conftest import House
from tests.playground.test_end_to_end import MODULE
from tests.playground.test_sessions_survive_kills import kill

ENGINE = ("manage.py", "engine", "--device", "modelled:h200")


def test_a_run_survives_the_loss_of_its_engine(tmp_path):
    house = House(tmp_path, UCUTLASS_LEASE_SECONDS="2", UCUTLASS_COMPILERS="none")
    try:
        house.web()
        engine = house.start(*ENGINE, name="first")
        original = house.submit(source=MODULE, classes=["f16", "tf32"], trials=3, device="modelled:h200")
        house.wait(original["id"], lambda s: s["state"] == "ended")
        control = {"X-Control-Token": original["control_token"]}
        snapshot = house.post(f"/api/sessions/{original['id']}/snapshots", {}, **control)["id"]
        started = house.post(f"/api/sessions/{snapshot}/again", {})
        house.wait(started["id"], lambda s: s["last_seq"] >= 6)
        kill(engine)
        assert house.get(f"/api/sessions/{started['id']}")["state"] == "running"
        house.start(*ENGINE, name="second")
        session = house.wait(started["id"], lambda s: s["state"] == "ended")
        assert session["summary"]["end"]["state"] == "done"
        rows = house.get(f"/api/sessions/{started['id']}/events?limit=2000")["events"]
        kinds = [row["kind"] for row in rows]
        assert "resumed" in kinds and kinds.count("trial.proposed") == session["spec"]["trials"]
        assert house.get(f"/api/sessions/{started['id']}/again")["verdict"] == "same prediction"
        runs = house.get(f"/api/sessions/{snapshot}/record")["reproductions"]
        assert [run["verdict"] for run in runs] == ["same prediction"]
    finally:
        for process in house.processes:
            kill(process)
        house.close()
