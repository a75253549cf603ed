"""The configurations of a template: all combinations of its parameters' values inside the stated limits.

Limits come from two sides. The template states inequalities; the hardware adds its own wherever the template says how
many threads, registers or bytes of shared memory a block needs. Every combination is tested against every limit, so the
counts are exact: `alone`, the combinations that break a limit, and `removed`, those that no earlier limit had removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from engine.strategies.two_stage.expressions import Expression, ExpressionError, Value, read
from engine.strategies.two_stage.forms import Parameter, Template
from sol.hardware import Hardware

MOST = 20_000  # combinations
THREADS_SM = {"sm_89": 1536}  # else 2048; CUDA C++ Programming Guide, technical specifications per compute capability
BLOCKS_SM = {"sm_89": 24}  # else 32
RESOURCES = ("threads", "registers", "shared_bytes", "blocks_sm")

Config = tuple[int | str, ...]  # a value for each parameter, in their order


class BadTemplate(ValueError):
    """A template that has no space of configurations; the message names the mistake for the model."""


def limits_of(hardware: Hardware) -> dict[str, int]:
    """The names of the hardware that an inequality may use, with their values."""
    return {
        "threads_block": 1024, "threads_sm": THREADS_SM.get(hardware.arch, 2048),
        "blocks_sm_most": BLOCKS_SM.get(hardware.arch, 32), "registers_thread": 255,
        "registers_sm": hardware.registers_sm, "shared_block": hardware.shared_block, "shared_sm": hardware.shared_sm,
        "sms": hardware.sms, "warp": 32,
    }  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """One inequality. `source`: template | hardware; `alone`, `removed`: as in the module's docstring."""

    expression: Expression
    resource: str
    source: str
    why: str = ""
    alone: int = 0
    removed: int = 0


class Space:
    """`parameters`, `limits` with their counts, `total` combinations and the `allowed` ones, in the order of values.
    Raises BadTemplate."""

    def __init__(self, template: Template, hardware: Hardware):
        self.template = template
        self.parameters = _parameters(template)
        self.names = tuple(p.name for p in self.parameters)
        self.hardware = limits_of(hardware)
        self.needs = {name: _read(name, text) for name in RESOURCES[:3] if (text := getattr(template, name).strip())}
        self.total = prod(len(p.values) for p in self.parameters)
        if self.total > MOST:
            raise BadTemplate(f"the parameters have {self.total:,} combinations; at most {MOST:,} are searched")
        self._check_names()
        stated = [
            Limit(_read("an inequality", i.expression), i.resource, "template", i.why) for i in template.inequalities
        ]
        self.limits = [*stated, *self._of_hardware()]
        for limit in self.limits:
            self._known(limit.expression)
        self.default: Config = tuple(p.default for p in self.parameters)
        broken = self.broken(self.default)
        if broken:
            raise BadTemplate(f"the default instance breaks `{broken[0].expression.text}`")
        self.allowed = self._count()
        self._allowed = frozenset(self.allowed)

    # ---- configurations ----

    def named(self, config: Config) -> dict[str, int | str]:
        return dict(zip(self.names, config, strict=True))

    def config(self, settings: Mapping[str, int | str]) -> Config | None:
        """The configuration with these values, the default for the rest; None if it is not an allowed one."""
        if not settings.keys() <= set(self.names):
            return None
        config = tuple(settings.get(p.name, p.default) for p in self.parameters)
        return config if config in self._allowed else None

    def allows(self, config: Config) -> bool:
        return config in self._allowed

    def broken(self, config: Config) -> list[Limit]:
        """The limits that a configuration breaks."""
        known = self._values(config)
        return [limit for limit in self.limits if not limit.expression.holds(known)]

    def beside(self, config: Config, place: int) -> Iterator[Iterator[Config]]:
        """The allowed configurations that differ in one parameter: a row for larger values and one for smaller ones,
        nearest first. Words have no order, so each is a row of its own."""
        values = self.parameters[place].values
        at = values.index(config[place])
        if any(isinstance(v, str) for v in values):
            rows = [[v] for v in values if v != config[place]]
        else:
            rows = [values[at + 1 :], values[:at][::-1]]
        for row in rows:
            changed = ((*config[:place], value, *config[place + 1 :]) for value in row)
            yield (c for c in changed if c in self._allowed)

    def text(self, config: Config) -> str:
        """The instance: the template's text with each `{name}` replaced by its value."""
        return instance(self.template.text, self.named(config))

    # ---- helpers ----

    def _count(self) -> list[Config]:
        """The allowed configurations; sets the counts of the limits. Each limit is evaluated once for equal values of
        the parameters that it reads, which are few of them: thousands of configurations have tens of such values."""
        alone, removed, allowed = [0] * len(self.limits), [0] * len(self.limits), []
        read_by: list[tuple[tuple[int, ...], dict[Config, bool]]]
        read_by = [(self._reads(limit.expression), {}) for limit in self.limits]
        for config in product(*(p.values for p in self.parameters)):
            broken = []
            for i, (places, holds) in enumerate(read_by):
                values = tuple([config[place] for place in places])
                if values not in holds:
                    holds[values] = self.limits[i].expression.holds(self._values(config))
                if not holds[values]:
                    broken.append(i)
            for i in broken:
                alone[i] += 1
            if broken:
                removed[broken[0]] += 1
            else:
                allowed.append(config)
        self.limits = [
            Limit(limit.expression, limit.resource, limit.source, limit.why, alone[i], removed[i])
            for i, limit in enumerate(self.limits)
        ]
        return allowed

    def _reads(self, expression: Expression) -> tuple[int, ...]:
        """The places of the parameters that the value of an inequality depends on."""
        names = set(expression.names)
        needs = self.needs if "blocks_sm" in names else names & self.needs.keys()
        names = names.union(*(self.needs[name].names for name in needs))
        return tuple(place for place, name in enumerate(self.names) if name in names)

    def _values(self, config: Config) -> dict[str, Value]:
        """What inequalities read: parameters, limits of the hardware, and what a block needs."""
        known: dict[str, Value] = {**self.hardware, **self.named(config)}
        for name, expression in self.needs.items():
            try:
                known[name] = expression.value(known)
            except ExpressionError:
                known[name] = float("nan")  # no comparison with it holds
        if "threads" in self.needs:
            known["blocks_sm"] = _blocks(known)
        return known

    def _of_hardware(self) -> Iterator[Limit]:
        """What the hardware sets for the resources that the template states."""
        if "threads" in self.needs:
            yield Limit(read("1 <= threads <= threads_block"), "threads", "hardware", "threads of a block")
        if "registers" in self.needs:
            yield Limit(read("registers <= registers_thread"), "registers", "hardware", "registers of a thread")
        if "threads" in self.needs and "registers" in self.needs:
            yield Limit(read("registers * threads <= registers_sm"), "registers", "hardware", "registers of an SM")
        if "shared_bytes" in self.needs:
            yield Limit(read("shared_bytes <= shared_block"), "shared_memory", "hardware", "shared memory of a block")
        if "threads" in self.needs:
            yield Limit(read("blocks_sm >= 1"), "occupancy", "hardware", "one block fits on an SM")

    def _known(self, expression: Expression) -> None:
        resources = {*self.needs, *(("blocks_sm",) if "threads" in self.needs else ())}
        unknown = sorted(expression.names - set(self.names) - self.hardware.keys() - resources)
        if unknown:
            names = ", ".join([*self.names, *sorted(resources), *self.hardware])
            raise BadTemplate(f"`{unknown[0]}` in `{expression.text}` is unknown; the names are {names}")

    def _check_names(self) -> None:
        taken_names = set(self.hardware) | set(RESOURCES)
        for p in self.parameters:
            if p.name in taken_names:
                raise BadTemplate(f"the parameter `{p.name}` has the name of a limit; rename it")
            if f"{{{p.name}}}" not in self.template.text:
                raise BadTemplate(f"the parameter `{p.name}` does not stand in the text as {{{p.name}}}")
            if p.default not in p.values:
                raise BadTemplate(f"the default {p.default} of `{p.name}` is none of its values")
        for expression in self.needs.values():
            unknown = sorted(expression.names - set(self.names) - self.hardware.keys())
            if unknown:
                raise BadTemplate(f"`{unknown[0]}` in `{expression.text}` is no parameter")


def _parameters(template: Template) -> tuple[Parameter, ...]:
    """The parameters, each value once. Raises BadTemplate if two have one name."""
    names = [p.name for p in template.parameters]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise BadTemplate(f"two parameters are called `{twice}`")
    return tuple(
        Parameter(name=p.name, values=list(dict.fromkeys(p.values)), default=p.default, meaning=p.meaning)
        for p in template.parameters
    )


def _read(what: str, text: str) -> Expression:
    try:
        return read(text)
    except ExpressionError as e:
        raise BadTemplate(f"{what}: {e}") from None


def _blocks(known: Mapping[str, Value]) -> Value:
    """Blocks that an SM holds at once, by what the template says that a block needs."""
    threads, registers = known["threads"], known.get("registers", 0)
    if not isinstance(threads, int | float) or not threads >= 1:
        return 0
    blocks = [known["blocks_sm_most"], known["threads_sm"] // threads]
    if isinstance(registers, int | float) and registers > 0:
        blocks.append(known["registers_sm"] // (registers * threads))
    shared = known.get("shared_bytes", 0)
    if isinstance(shared, int | float) and shared > 0:
        blocks.append(known["shared_sm"] // shared)
    return min(blocks)


def instance(text: str, settings: Mapping[str, int | str]) -> str:
    """A template's text with the values of its parameters. Other braces stay."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", lambda m: str(settings[m[1]]) if m[1] in settings else m[0], text)


__all__ = ["MOST", "BadTemplate", "Config", "Limit", "Space", "instance", "limits_of"]
