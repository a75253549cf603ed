"""Every example has a topic and a name that fits on a button, uncut."""

from collections import Counter

import pytest

from playground.language import examples, topics

EXAMPLES = examples.all_examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e['kind']}-{e['id']}")
def test_an_example_has_a_topic_and_a_short_name(example):
    assert example["topic"] != topics.OTHER, "playground.language.topics.TOPICS has no word of its name"
    assert 3 <= len(example["name"]) <= 36 and "…" not in example["name"]


def test_no_two_examples_of_a_kind_have_one_name():
    assert not [name for name, many in Counter((e["kind"], e["name"]) for e in EXAMPLES).items() if many > 1]


def test_a_name_is_written_as_people_write_it():
    assert topics.name_of("linear_silu_f16") == "Linear SiLU float16"
    assert topics.name_of("conv3d_maxpool_logsumexp_relu") == "3-D conv max pool log-sum-exp ReLU"
    assert topics.topic_of("grouped_attention") == "Attention" and topics.topic_of("nothing_known") == topics.OTHER
