"""A room with a teacher and seats, over the test client."""

from __future__ import annotations

from typing import Any

import pytest


class Visit:
    """A room as the API gives it. `teacher`, `seat(name)`: headers."""

    def __init__(self, client, **fields: Any):
        self.client = client
        reply = self.post("/api/rooms", {"title": "Monday", "lessons": ["roofline"]} | fields)
        assert reply.status_code == 201, reply.content
        self.room = reply.json()
        self.code = self.room["code"]
        self.teacher = {"X-Teacher-Token": self.room["teacher_token"]}

    def post(self, path: str, body: Any, headers: dict | None = None):
        return self.client.post(path, body, content_type="application/json", headers=headers or {})

    def path(self, rest: str) -> str:
        return f"/api/rooms/{self.code}/{rest}"

    def join(self, name: str):
        return self.post(self.path("seats"), {"name": name})

    def seat(self, name: str) -> dict[str, str]:
        reply = self.join(name)
        assert reply.status_code == 201, reply.content
        return {"X-Seat-Token": reply.json()["token"]}

    def answer(self, headers: dict, step: str, value: Any, **more: Any):
        return self.post(self.path("answers"), {"step": step, "answer": value, **more}, headers)

    def order(self, kind: str, **data: Any):
        return self.post(self.path("commands"), {"kind": kind, "data": data}, self.teacher)

    def get(self, rest: str, headers: dict):
        return self.client.get(self.path(rest), headers=headers)

    def results(self) -> dict[str, Any]:
        return self.get("results", self.teacher).json()


@pytest.fixture
def visit(client):
    """visit(**fields of the room)."""
    return lambda **fields: Visit(client, **fields)
