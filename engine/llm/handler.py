"""Answers a script's Ask with a model: settings, budgets, the call and its price.

models = of_environment()                          # once per process
runner.run(spec, handlers=handlers(models))        # once per session
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, MutableMapping
from typing import Any

from engine.llm import settings as environment
from engine.llm.budget import Day, OverBudget, SessionTokens
from engine.llm.client import Patience, complete
from engine.llm.endpoint import Endpoint, operators
from engine.llm.keys import no_core_dumps
from engine.llm.ledger import entries
from engine.llm.request import Call, schema_of
from engine.llm.settings import Settings
from engine.session.script.turns import Handler, Turn
from engine.strategies.api import Ask, Reply


def of_environment(environ: MutableMapping[str, str] | None = None) -> Settings:
    """The settings, for the whole process. Core dumps are switched off, because its memory may hold a key, and the
    operator's key is taken out of the environment, which compilers and workers inherit. Raises BadSettings."""
    environ = os.environ if environ is None else environ
    settings = environment.load(environ)
    environ.pop("OPENAI_API_KEY", None)
    no_core_dumps()
    return settings


def handlers(settings: Settings, endpoint: Endpoint | None = None, address: str = "") -> dict[str, Handler]:
    """The handlers of one session. `endpoint`: a visitor's, with an own key; None: the operator's. `address`: a digest
    of the address that started the session, "" for this machine's own."""
    return {"ask": Models(settings, endpoint, address=address)}


class Models:
    """Asks the model of a role. One for each session, because it counts the session's tokens. From several threads.
    `via`: makes the call in place of engine.llm.client.complete."""

    def __init__(
        self, settings: Settings, endpoint: Endpoint | None = None, patience: Patience | None = None,
        address: str = "", via: Callable[..., Reply] | None = None,
    ):  # fmt: skip
        self.settings, self.via = settings, via
        self.endpoint = endpoint or operators(settings)
        self.patience = patience or Patience(silence=settings.silence, total=settings.seconds)
        self._session = SessionTokens(settings.tokens_a_session, settings.tokens_a_call)
        self._day = None
        if self.endpoint.whose == "operator":
            most = settings.tokens_an_address
            self._day = Day(settings.folder, settings.tokens_a_day, address=address, most_of_address=most)

    def about(self, verb: Ask) -> dict[str, Any]:
        """What events.Asked says of the model. `sampling` has the longest reply too."""
        call = self._call(verb)
        sampling = {"max_tokens": call.tokens, **call.sampling}
        return {"model": call.model, "sampling": sampling, "tokens_in": call.estimate}

    def __call__(self, verb: Ask, turn: Turn) -> Reply:
        if missing := self.settings.why_not(verb.role, has_endpoint=self.endpoint.whose == "visitor"):
            return Reply(refusal="no_model", reason=missing)
        call, attempt = self._call(verb), (turn.path, turn.attempt)
        try:
            tokens = self._session.reserve(attempt, entries(turn.past), call.estimate, call.tokens)
        except OverBudget as e:
            return Reply(refusal="over_budget", reason=str(e), model=call.model)
        used = 0
        try:
            call, settle = self._of_the_day(dataclasses.replace(call, tokens=tokens))
            try:
                reply = (self.via or complete)(self.endpoint, call, turn.cancelled, turn.say, self.patience)
                used = reply.tokens.get("in", 0) + reply.tokens.get("out", 0)
            finally:
                settle(used)
        except OverBudget as e:
            return Reply(refusal="over_budget", reason=str(e), model=call.model)
        except OSError as e:
            reason = f"The account of the day's tokens cannot be written ({e.strerror}). UCUTLASS_VAR names its folder."
            return Reply(refusal="over_budget", reason=reason, model=call.model)
        finally:
            self._session.settle(attempt, used)
        return self._priced(reply, call)

    def _call(self, verb: Ask) -> Call:
        settings = self.settings
        return Call(
            settings.model_for(verb.role), verb.prompt, schema_of(verb.expects), settings.tokens_a_call,
            settings.sampling,
        )  # fmt: skip

    def _of_the_day(self, call: Call) -> tuple[Call, Callable[[int], None]]:
        """The call as the day's account allows it, and what settles its reservation. A visitor's own key is not the
        operator's account. Raises OverBudget and OSError."""
        if self._day is None:
            return call, lambda used: None
        prompt, account = call.estimate, self._day
        day, tokens = account.reserve(prompt, call.tokens)

        def settle(used: int) -> None:
            with contextlib.suppress(OSError, OverBudget):  # the reply is there; its reservation stays booked
                account.settle(day, prompt + tokens, used)

        return dataclasses.replace(call, tokens=tokens), settle

    def _priced(self, reply: Reply, call: Call) -> Reply:
        """The reply with its cost, by the price of the model that answered or else of the one that was asked."""
        prices = self.settings.prices
        if prices is None or not reply.tokens:
            return reply
        costs = (prices.cost(name, reply.tokens) for name in (reply.model, call.model))
        cost = next((c for c in costs if c is not None), None)
        return dataclasses.replace(reply, cost=cost, prices="" if cost is None else prices.date.isoformat())
