"""Everything here needs the NVIDIA GPU and its toolchain, and is skipped, with the reason, where either is missing."""

import pytest


@pytest.fixture(scope="session")
def cuda():
    """The engine's own device, warm: one for all tests, as one serves all sessions."""
    pytest.importorskip("torch")
    from engine.devices import SessionRefused, registry

    try:
        return registry.get("cuda", local_user=True)
    except SessionRefused as e:
        pytest.skip(e.reason)
