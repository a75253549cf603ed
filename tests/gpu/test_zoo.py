"""The half of the zoo that needs a GPU: CUDA C++ and Triton, in the sandbox, judged from outside."""

import pytest

from engine.evaluate.integrity import verify
from tests.engine.integrity import zoo

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def verifier(cuda):
    verifiers = {}

    def of(name: str) -> verify.Verifier:
        if name not in verifiers:
            verifiers[name] = verify.Verifier(zoo.module(name), "cuda", local_user=True)
        return verifiers[name].start()

    yield of
    for one in verifiers.values():
        one.close()


@pytest.mark.parametrize(
    "animal",
    [*zoo.animals("cuda_cheats"), *zoo.animals("cuda_honest")],
    ids=lambda a: f"{a.path.parent.name}-{a.path.name}",
)
def test_cheats_are_caught_and_honest_kernels_are_not(animal, verifier):
    if "cutlass" in animal.text:
        pytest.importorskip("cutlass")
    if "triton" in animal.text:
        pytest.importorskip("triton")
    report = verifier(animal.module).verify(animal.text, animal.kind, animal.cls)
    findings = [f"{f.code}: {f.sentence}" for f in report.findings]
    if animal.expect:
        assert not report.accepted and not animal.missing(report.codes), (report.verdict, findings)
    else:
        assert report.accepted and report.verdict == animal.verdict, (report.verdict, findings)
