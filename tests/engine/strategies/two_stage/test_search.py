"""The space of a template counts exactly, and the descent keeps every limit that is stated."""

import json
import random
from itertools import product

import pytest
from pydantic import ValidationError

from engine.strategies.two_stage.descent import Descent
from engine.strategies.two_stage.effects import lines, main_effects, spread
from engine.strategies.two_stage.expressions import read
from engine.strategies.two_stage.forms import Configuration, KernelTemplate
from engine.strategies.two_stage.options import read_preset
from engine.strategies.two_stage.space import BadTemplate, Space, instance
from sol.hardware import load

H200 = load("h200")


def template(parameters, inequalities=(), **more):
    text = " ".join(f"{{{name}}}" for name in parameters) + " {other} { x }"
    rows = [{"name": n, "values": v, "default": v[0]} for n, v in parameters.items()]
    return KernelTemplate.model_validate(
        {"text": text, "language": "cuda", "cls": "f16", "change": "", "parameters": rows,
         "inequalities": [{"expression": e} for e in inequalities], **more}
    )  # fmt: skip


def random_space(rng):
    """A template with random parameters and inequalities whose default instance is allowed; None if it is not."""
    names = ["a", "b", "c", "d"][: rng.randrange(1, 5)]
    parameters = {n: sorted(rng.sample([1, 2, 3, 4, 8, 16, 32, 64], rng.randrange(1, 6))) for n in names}
    if rng.random() < 0.4:
        parameters["word"] = rng.sample(["x", "y", "z"], 2)
    pairs = [(rng.choice(names), rng.choice(names)) for _ in range(rng.randrange(4))]
    limits = [rng.choice(["{0} * {1} <= 256", "{0} <= {1} * 8", "({0} + {1}) % 3 != 2", "warp % {0} == 0"]).format(*p)
              for p in pairs]  # fmt: skip
    try:
        return Space(template(parameters, limits, threads=f"32 * {names[0]}", registers=f"8 * {names[-1]}"), H200)
    except BadTemplate:
        return None


@pytest.mark.parametrize("seed", range(60))
def test_the_search_keeps_every_limit_and_asks_for_each_configuration_once(seed):
    rng = random.Random(seed)
    space = random_space(rng)
    if space is None:
        return
    ms = {c: rng.random() + 0.1 for c in space.allowed}
    starts = [(c, "start") for c in product(*(p.values for p in space.parameters))][:6]  # some are not allowed
    descent, asked = Descent(space, random.Random(seed), starts, known={space.default: ms[space.default]}), []
    walk, answer = descent.walk(), None
    while True:
        try:
            step = walk.send(answer)
        except StopIteration:
            break
        asked.append(step.config)
        for limit in space.limits:
            assert limit.expression.holds({**space.hardware, **space.named(step.config),
                                           **{n: e.value(space.named(step.config)) for n, e in space.needs.items()},
                                           "blocks_sm": 1}), limit.expression.text  # fmt: skip
        assert not space.broken(step.config) and read("1 <= 1").holds({})
        answer = ms[step.config] if rng.random() < 0.9 else None
    assert len(set(asked)) == len(asked) and set(asked) == set(space.allowed) - {space.default}
    timed = [c for c in asked if descent.ms[c] is not None]
    assert all(descent.ms[descent.best] <= descent.ms[c] for c in timed)


@pytest.mark.parametrize("seed", range(30))
def test_the_counts_add_up(seed):
    space = random_space(random.Random(seed))
    if space is None:
        return
    assert space.total == len(space.allowed) + sum(limit.removed for limit in space.limits)
    for limit in space.limits:
        every = product(*(p.values for p in space.parameters))
        assert limit.alone == sum(limit in space.broken(c) for c in every) >= limit.removed


def test_limits_of_the_hardware_come_from_what_a_block_needs():
    space = Space(template({"t": [32, 1024, 2048], "r": [32, 128, 255, 300]}, threads="t", registers="r",
                           shared_bytes="t * 200"), H200)  # fmt: skip
    sources = {limit.expression.text: (limit.source, limit.alone) for limit in space.limits}
    assert sources["1 <= threads <= threads_block"] == ("hardware", 4)
    assert sources["registers <= registers_thread"] == ("hardware", 3)
    assert sources["shared_bytes <= shared_block"] == ("hardware", 4)
    assert (1024, 32) in space.allowed and (1024, 128) not in space.allowed
    assert space.config({"t": 1024}) == (1024, 32) and space.config({"t": 2048}) is None
    assert space.config({"unknown": 1}) is None


@pytest.mark.parametrize(
    ("parameters", "inequalities", "more", "words"),
    [
        ({"a": [1, 2]}, ["a > 1"], {}, "default instance breaks `a > 1`"),
        ({"a": [1, 2]}, ["b > 1"], {}, "`b` in `b > 1` is unknown"),
        ({"a": [1, 2]}, ["a >"], {}, "is no expression"),
        ({"threads": [1, 2]}, [], {}, "has the name of a limit"),
        ({"sms": [1, 2]}, [], {}, "has the name of a limit"),
        ({"a": [1, 2]}, [], {"threads": "b"}, "`b` in `b` is no parameter"),
        ({"a": [1, 2]}, [], {"text": "none"}, "does not stand in the text"),
        ({n: list(range(1, 17)) for n in "abcd"}, [], {}, "at most 20,000"),
    ],
)  # fmt: skip
def test_a_template_that_is_none_goes_back_with_its_mistake(parameters, inequalities, more, words):
    with pytest.raises(BadTemplate, match=words):
        Space(template(parameters, inequalities, **more), H200)


def test_an_instance_replaces_parameters_and_leaves_other_braces():
    assert instance("{a}x{b} { return y[{c}]; } {{a}}", {"a": 64, "b": "graph"}) == "64xgraph { return y[{c}]; } {64}"


def test_the_descent_finds_the_best_of_a_bowl_with_few_evaluations():
    space = Space(template({n: list(range(1, 11)) for n in "abc"}, ["a + b + c <= 24"]), H200)
    descent, many = Descent(space, random.Random(0), known={space.default: 100.0}, screened=2), 0
    walk = descent.walk()
    step = next(walk)
    while descent.best != (5, 6, 7):
        many += 1
        step = walk.send(1 + sum((x - best) ** 2 for x, best in zip(step.config, (5, 6, 7), strict=True)))
    assert many < 60 < len(space.allowed)


def test_values_without_a_time_are_named_with_why():
    space = Space(template({"a": [1, 2, 4, 8]}), H200)
    (effect,) = main_effects(space, {(1,): 1.0, (4,): None})
    assert [row["value"] for row in effect["values"]] == [1]
    assert effect["untimed"] == [{"value": 2, "failed": 0}, {"value": 4, "failed": 1}, {"value": 8, "failed": 0}]
    assert lines([effect]) == ["a: only 1 was timed; not evaluated: 2, 8; failed: 4"]


def test_effects_are_means_over_the_evaluated_configurations():
    space = Space(template({"a": [1, 2], "b": [1, 2, 3]}), H200)
    times = {(1, 1): 1.0, (1, 2): 4.0, (2, 1): 2.0, (2, 2): None}
    first, second = main_effects(space, times)
    assert first["name"] == "b" and first["range"] == pytest.approx(4 / 2**0.5)
    assert [row["many"] for row in first["values"]] == [2, 1]
    assert second["values"][0] == {"value": 1, "ms": pytest.approx(2.0), "best_ms": 1.0, "many": 2}
    assert lines([second]) == ["a: 1 1.00x (2), 2 1.00x (1)"] and second["untimed"] == []
    assert lines(main_effects(space, {})) == ["a: no value was timed", "b: no value was timed"]
    assert spread([3.0]) is None and spread([3.0, 1.0, 2.0]) == {"least": 1, "median": 2, "most": 3, "ratio": 3}


@pytest.mark.parametrize("value", [10**15 + 1, -(10**4000), "²", "1" * 41])
def test_a_value_is_bounded_wherever_it_stands(value):
    """It stands in the text of each instance and in the event of each evaluation."""
    with pytest.raises(ValidationError):
        template({"a": [1, value]})
    with pytest.raises(ValidationError):
        Configuration.model_validate({"settings": [{"name": "a", "value": value}]})
    with pytest.raises(ValueError, match=r"^configurations\.0\.a: write a whole number or a word, of at most 15"):
        read_preset(json.dumps({"configurations": [{"a": value}]}))


def test_a_number_that_a_model_writes_as_a_text_is_a_number():
    (parameter,) = template({"a": ["16", " 32 ", 64, "x 1"]}).parameters
    assert parameter.values == [16, 32, 64, "x 1"] and parameter.default == 16
