"""What is sent for one turn, and what an endpoint is known to take.

Endpoints that speak chat completions differ in the parameters they accept. A request begins with all that it wants;
when the endpoint refuses one (status 400 or 422), the request is sent again without it, and this is remembered for the
endpoint and model as long as the process lives.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

BYTES_PER_TOKEN = 4  # of English and code, to estimate what an endpoint did not count
MOST_BYTES_PER_TOKEN = 16  # a reply with more is longer than was agreed, whatever its tokens are


@dataclass(frozen=True)
class Call:
    """One chat completion. `schema`: the JSON schema that the reply must fit, or None for any text; `tokens`: the
    longest reply; `sampling`: further parameters of the request."""

    model: str
    prompt: str
    schema: dict[str, Any] | None = None
    tokens: int = 16_384
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation. A schema is named in words too, for models that were not trained on the parameter."""
        messages = [{"role": "user", "content": self.prompt}]
        if self.schema is None:
            return messages
        return [{"role": "system", "content": IN_WORDS.format(schema=json.dumps(self.schema))}, *messages]

    @property
    def estimate(self) -> int:
        """Tokens of the conversation, roughly."""
        return sum(tokens_of(m["content"]) + 4 for m in self.messages)

    @property
    def most_bytes(self) -> int:
        """UTF-8 bytes of the longest reply."""
        return min(self.tokens * MOST_BYTES_PER_TOKEN, 1 << 20)


IN_WORDS = "Reply with one JSON object that fits this JSON schema, and with nothing else:\n{schema}"


@lru_cache(64)  # pydantic takes milliseconds for a schema
def schema_of(expects: type[BaseModel] | None) -> dict[str, Any] | None:
    return None if expects is None else expects.model_json_schema()


def tokens_of(text: str) -> int:
    """An estimate: four bytes a token."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Abilities:
    """What an endpoint takes with a model, until it refuses. `limit`: its name of the parameter for the longest
    reply."""

    structured: bool = True
    counts: bool = True  # token counts at the end of a stream
    limit: str = "max_tokens"
    sampling: bool = True

    def body(self, call: Call) -> dict[str, Any]:
        """The parameters of the request."""
        body: dict[str, Any] = {
            "model": call.model, "messages": call.messages, "stream": True, self.limit: call.tokens,
        }  # fmt: skip
        if self.counts:
            body["stream_options"] = {"include_usage": True}
        if self.structured and call.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": call.schema, "strict": _is_strict(call.schema)},
            }
        return body | (dict(call.sampling) if self.sampling else {})

    def without(self, call: Call, complaint: str) -> Abilities | None:
        """The abilities that are left after the endpoint refused a request with these words, or None if the request
        holds nothing else that could be left out."""
        words = complaint.lower()
        if self.limit == "max_tokens" and "max_tokens" in words and "max_completion_tokens" in words:
            return dataclasses.replace(self, limit="max_completion_tokens")
        if self.counts and "stream_options" in words:
            return dataclasses.replace(self, counts=False)
        if self.sampling and any(name in words for name in call.sampling):
            return dataclasses.replace(self, sampling=False)
        if self.structured and call.schema is not None:
            return dataclasses.replace(self, structured=False)
        return None


def _is_strict(schema: Any) -> bool:
    """Return True if every object of the schema requires all of its fields and allows no other: endpoints enforce only
    such a schema to the letter."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if isinstance(fields := schema.get("properties"), dict) and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False or set(fields) != set(schema.get("required", ())):
            return False
    elif schema.get("type") == "object":
        return False
    return all(_is_strict(value) for value in schema.values())
