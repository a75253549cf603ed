import pytest

from engine.llm import client
from tests.engine.llm.server import ModelServer


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(client, "_abilities", {})
    with ModelServer() as server:
        yield server
