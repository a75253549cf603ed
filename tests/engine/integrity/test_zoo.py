"""Every cheat is caught with the right evidence, and no honest kernel is accused. They run for real, each in a process
of its own under bubblewrap, on the CPU; what needs a GPU is in cuda_cheats and cuda_honest (tests/gpu/test_zoo.py), and
what its text alone tells is tested here.
"""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from engine import sandbox
from engine.evaluate.integrity import kernel_evidence, trial, verify
from engine.evaluate.integrity.examination import CLASSES
from engine.evaluate.integrity.findings import CODES
from engine.evaluate.integrity.texts import reading
from engine.sandbox import Sandbox
from tests.engine.integrity import zoo

CHEATS, HONEST = zoo.animals("cheats"), zoo.animals("honest")
CUDA_CHEATS, CUDA_HONEST = zoo.animals("cuda_cheats"), zoo.animals("cuda_honest")
IN_THE_TEXT = {c for c in CODES if CODES[c][0] != "wrong"} & {
    "fallback", "patched_module", "harness_access", "tensor_subclass", "threads", "side_stream", "graph_replay",
    "hidden_code", "memoized", "seeded", "precision_flag",
}  # fmt: skip
GiB = 1 << 30


@pytest.fixture(scope="module")
def shared():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    processes = verify.Shared(memory_bytes=2 * GiB)
    processes.judge.start()
    yield processes
    processes.close()
    sandbox.drain()


@pytest.fixture(scope="module")
def verifier(shared):
    """The verifier of a module; one at a time is open, and the files come module by module."""
    verifiers = {}

    def of(name: str) -> verify.Verifier:
        if name not in verifiers:
            for other in verifiers.values():
                other.close()
            verifiers.clear()
            verifiers[name] = verify.Verifier(zoo.module(name), shared=shared, memory_bytes=2 * GiB)
        return verifiers[name].start()

    yield of
    for other in verifiers.values():
        other.close()


@pytest.mark.parametrize(
    "animal", sorted([*CHEATS, *HONEST], key=lambda a: a.module), ids=lambda a: f"{a.path.parent.name}-{a.path.stem}"
)
def test_cheats_are_caught_and_honest_kernels_are_not(animal, verifier):
    report = verifier(animal.module).verify(animal.text, animal.kind, animal.cls)
    findings = [f"{f.code}: {f.sentence}" for f in report.findings]
    evidence = [*kernel_evidence.of_text(report), *kernel_evidence.of_rounds(report, "cpu")]
    if report.verdict != "wrong":  # what a session shows of it leads to the same verdict
        assert kernel_evidence.verdict(evidence) == report.verdict, evidence
    if animal.expect:
        assert not report.accepted, (report.verdict, findings)
        assert not animal.missing(report.codes), findings
        assert all(f.evidence for f in report.findings)
    else:
        assert report.accepted != animal.undecided and report.verdict == animal.verdict, (report.verdict, findings)
        assert report.cls is not None and CLASSES.index(report.cls) <= CLASSES.index(animal.cls)


@pytest.mark.parametrize("animal", CUDA_CHEATS, ids=lambda a: a.path.stem)
def test_what_the_text_of_a_cuda_cheat_tells(animal):
    expected = animal.expect & IN_THE_TEXT
    report = reading.read(animal.text, animal.kind, animal.cls)
    assert expected <= report.codes


@pytest.mark.parametrize("animal", CUDA_HONEST, ids=lambda a: a.path.stem)
def test_the_text_of_an_honest_cuda_kernel_accuses_it_of_nothing(animal):
    report = reading.read(animal.text, animal.kind, animal.cls)
    assert not [f for f in report.findings if f.severity != "note"], report.findings


def test_the_zoo_is_large_enough():
    assert len(CHEATS) + len(CUDA_CHEATS) >= 150
    assert len(HONEST) + len(CUDA_HONEST) >= 60
    assert all(bool(a.expect) != bool(a.unseen) for a in (*CHEATS, *CUDA_CHEATS))
    assert all(a.module and not a.unseen for a in (*HONEST, *CUDA_HONEST))
    assert {c for a in (*CHEATS, *CUDA_CHEATS) for e in a.expect for c in e.split("|")} <= set(CODES)


def test_each_family_is_a_row_of_the_table_and_has_a_cheat():
    table = Path(verify.__file__).with_name("README.md").read_text().split("## The families")[1].split("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    families = [row[0] for row in rows[2:]]
    assert rows[0][0] == "family" and len(families) == len(set(families))
    assert {a.family for a in (*CHEATS, *CUDA_CHEATS)} == set(families)
    assert {a.family for a in (*HONEST, *CUDA_HONEST)} <= set(families)
    assert all(len(row) == 6 and all(row) and row[4] in ("CPU", "GPU", "both") for row in rows[2:]), rows
    folder = Path(verify.__file__).parent
    for row in rows[2:]:
        for place in re.findall("`([^`]+)`", row[3]):
            at = [folder / place, folder.parent / place, folder.parents[2] / place]
            assert any(path.exists() for path in at), (row[0], place)


def test_the_codes_in_the_table_exist():
    text = Path(verify.__file__).with_name("README.md").read_text()
    table = text.split("## The families")[1].split("## ")[0]
    named = {w for line in table.splitlines() for cell in line.split("|")[3:4] for w in re.findall("`([a-z_]+)`", cell)}
    assert named - {"proc"} <= set(CODES), named - set(CODES)
