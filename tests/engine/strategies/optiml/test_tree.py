"""The statistics of the search tree obey their definition after any sequence of selections, rewards and closings."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.strategies.optiml.tree import Tree, Widening

REWARDS = st.floats(0, 1)
STEPS = st.lists(st.tuples(REWARDS, REWARDS, st.sampled_from(["", "", "", "wrong", "repeated"])), max_size=60)
TREES = st.builds(Tree, st.floats(0, 10), st.integers(1, 6), st.builds(Widening, st.integers(1, 4), st.integers(0, 3)))


def grown(tree, steps):
    """The tree after the first evaluation and these: (prior, reward, what is closed)."""
    tree.evaluate(tree.root, 0.5)
    for prior, reward, close in steps:
        node = tree.select()
        if node is None:
            break
        if close == "repeated":
            tree.close(node, "repeated")
            continue
        assert tree.expandable(node)
        child = tree.add(node, prior)
        tree.evaluate(child, reward)
        if close:
            tree.close(child, close, wrong=close == "wrong")
    return tree


def below(node):
    return [node, *(n for child in node.children for n in below(child))]


@settings(max_examples=150, deadline=None)
@given(TREES, STEPS)
def test_visits_and_values_are_what_they_are_defined_as(tree, steps):
    grown(tree, steps)
    assert sorted(n.number for n in below(tree.root)) == list(range(len(tree.nodes)))
    for node in tree.nodes:
        assert node.visits == len(node.own) + sum(child.visits for child in node.children)
        rewards = [reward for n in below(node) for reward in n.own]
        assert len(rewards) == node.visits
        assert math.isclose(node.value, sum(rewards) / len(rewards), abs_tol=1e-9)
        assert 0 <= node.value <= 1


@settings(max_examples=150, deadline=None)
@given(TREES, STEPS)
def test_depth_width_and_closing_are_respected(tree, steps):
    grown(tree, steps)
    for node in tree.nodes:
        assert node.depth == len(list(tree.path(node))) - 1 <= tree.depth
        # A child was added when the node might have one more, and its visits have only grown since.
        assert sum(not child.wrong for child in node.children) <= tree.widening.width(node.visits)
        assert node.closed != "wrong" or not node.children
    selected = tree.select()
    assert selected is None or (tree.expandable(selected) and not selected.closed)
    assert (selected is None) == (not any(map(tree.expandable, tree.nodes)))


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_same_rewards_grow_the_same_tree(steps):
    one, other = grown(Tree(), steps), grown(Tree(), steps)
    shape = [(n.number, n.parent and n.parent.number, n.visits, n.total, n.closed) for n in one.nodes]
    assert shape == [(n.number, n.parent and n.parent.number, n.visits, n.total, n.closed) for n in other.nodes]
    assert [n.number for n in one.principal()] == [n.number for n in other.principal()]


def test_the_widening_is_2_plus_3_roots_of_the_visits():
    assert [Widening().width(n) for n in (0, 1, 4, 9, 10)] == [2, 5, 8, 11, 11]
    assert Tree().c == 1.0 and Tree().depth == 8


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 8), st.integers(1, 8), st.integers(0, 8), st.integers(1, 400))
def test_a_fitted_widening_never_grows_faster_than_its_own(evaluations, levels, base, growth, visits):
    own = Widening(base, growth)
    fitted = own.fitted(evaluations, levels)
    assert fitted.base == base and 1 <= fitted.width(visits) <= own.width(visits)
    assert levels > 1 or fitted == own
    if levels > 1 and visits <= evaluations:
        assert fitted.width(visits) <= max(base, evaluations ** (1 / levels) + 1e-9)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([12, 40, 200]), st.lists(st.tuples(REWARDS, REWARDS), min_size=200, max_size=200))
def test_right_edits_reach_three_levels_whatever_their_rewards(evaluations, steps):
    tree = Tree(widening=Widening().fitted(evaluations, 3))
    grown(tree, [(prior, reward, "") for prior, reward in steps[: evaluations - 1]])
    assert len(tree.nodes) == evaluations and max(node.depth for node in tree.nodes) >= 3


def test_without_the_fit_a_dozen_evaluations_are_all_edits_of_the_root():
    tree = grown(Tree(), [(0.5, 0.5, "")] * 11)
    assert max(node.depth for node in tree.nodes) == 1


def test_a_wrong_child_takes_no_place():
    tree = Tree(widening=Widening(1, 0))
    tree.evaluate(tree.root, 0.5)
    for _ in range(3):
        assert tree.select() is tree.root
        wrong = tree.add(tree.root)
        tree.close(wrong, "not right", wrong=True)
        tree.evaluate(wrong, 0.0)
    right = tree.add(tree.root)
    tree.evaluate(right, 0.5)
    assert tree.select() is right and not tree.expandable(tree.root)


def test_a_child_s_score_is_puct():
    tree = Tree(c=2.0, widening=Widening(2, 0))
    tree.evaluate(tree.root, 0.5)
    first, second = tree.add(tree.root, 0.6), tree.add(tree.root, 0.2)
    tree.evaluate(first, 0.7)
    tree.evaluate(second, 0.1)
    assert math.isclose(tree.score(first), 0.7 + 2.0 * 0.75 * math.sqrt(3) / 2)
    assert math.isclose(tree.score(second), 0.1 + 2.0 * 0.25 * math.sqrt(3) / 2)
    assert tree.select() is first


def test_a_better_child_is_edited_before_a_worse_one_and_a_wrong_one_never():
    tree = Tree(c=0.1)
    tree.evaluate(tree.root, 0.5)
    good, bad, wrong = (tree.add(tree.root, 0.5) for _ in range(3))
    for node, reward in ((good, 0.9), (bad, 0.2), (wrong, 0.0)):
        tree.evaluate(node, reward)
    tree.close(wrong, "not right")
    assert tree.select() is good
    tree.close(good, "repeats")
    for _ in range(40):
        node = tree.select()
        assert node is not wrong and node is not good
        tree.evaluate(tree.add(node, 0.5), 0.0)


def test_the_principal_path_has_most_visits_then_the_higher_value():
    tree = Tree()
    tree.evaluate(tree.root, 0.5)
    a, b = tree.add(tree.root), tree.add(tree.root)
    tree.evaluate(a, 0.4)
    tree.evaluate(b, 0.6)
    assert [n.number for n in tree.principal()] == [0, b.number]
    tree.evaluate(tree.add(a), 0.1)
    assert [n.number for n in tree.principal()] == [0, a.number, 3]
    tree.close(tree.nodes[3], "not right", wrong=True)
    assert [n.number for n in tree.principal()] == [0, a.number]
