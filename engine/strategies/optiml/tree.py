"""The search tree: visits, values, selection by PUCT and progressive widening. Pure data; it knows nothing of kernels.

Definitions, which the statistics obey at any time:

    visits(n) = own evaluations of n + the visits of its children
    value(n)  = mean of all rewards at n and below it

A tree search needs three rules. The study (arXiv 2602.12305) names PUCT; the constants and the details are ours:

  selection   From the root, the child with the highest PUCT score: value + C * prior * sqrt(visits of the parent) /
              (1 + visits of the child), with the parent's children sharing one unit of prior.
  widening    A node may have `base + growth * sqrt(visits)` right children; a wrong one is not edited and takes no
              place. While it may have one more, that child competes with the others: its visits are 0, its value is
              the node's own reward (an edit is expected to change nothing), and its prior the mean of the others'. If
              it wins, the node is expanded.
  fitting     The growth is lowered so that a small budget is not spent on edits of the root alone: after all N
              evaluations the root may have N ** (1 / levels) children, as in a full tree of so many levels.
  closing     A closed node gets no more children. A node below which nothing can be expanded is not selected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

LEAST_PRIOR = 0.01


@dataclass(eq=False)
class Node:
    """`number`: from 0, the root; `depth`: edits from the root; `prior`: before it is shared among siblings; `own`: the
    rewards of the node itself; `total`: the sum of the rewards at the node and below it; `wrong`: its candidate is not
    right, so it is on no principal path."""

    number: int
    parent: Node | None = None
    prior: float = 1.0
    depth: int = 0
    children: list[Node] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    closed: str = ""  # why the node gets no more children, or ""
    wrong: bool = False

    @property
    def value(self) -> float:
        """The mean reward at the node and below it; 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def reward(self) -> float:
        """The mean of the node's own rewards; 0 before the first."""
        return sum(self.own) / len(self.own) if self.own else 0.0


@dataclass(frozen=True)
class Widening:
    """How many right children a node may have: base + growth * sqrt(visits), rounded down."""

    base: float = 2.0
    growth: float = 3.0

    def width(self, visits: int) -> int:
        return max(1, math.floor(self.base + self.growth * math.sqrt(visits)))

    def fitted(self, evaluations: int, levels: int) -> Widening:
        """The widening for a tree of so many evaluations, the root's included, that is to have `levels` levels below
        its root. It never grows faster than this one, and with one level it is this one."""
        if levels <= 1 or evaluations < 1:
            return self
        room = max(0.0, evaluations ** (1 / levels) - self.base)
        return replace(self, growth=min(self.growth, room / math.sqrt(evaluations)))


class Tree:
    """`c`: the constant of PUCT; `depth`: edits from the root at most."""

    def __init__(self, c: float = 1.0, depth: int = 8, widening: Widening | None = None):
        self.c, self.depth, self.widening = c, depth, widening or Widening()
        self.nodes: list[Node] = [Node(0)]

    @property
    def root(self) -> Node:
        return self.nodes[0]

    # ---- growth ----

    def add(self, parent: Node, prior: float = 1.0) -> Node:
        """A new child. Its first evaluation follows."""
        child = Node(len(self.nodes), parent, max(LEAST_PRIOR, prior), parent.depth + 1)
        parent.children.append(child)
        self.nodes.append(child)
        return child

    def evaluate(self, node: Node, reward: float) -> None:
        """Add a reward to the node and to all nodes above it."""
        node.own.append(reward)
        for above in self.path(node):
            above.visits += 1
            above.total += reward

    @staticmethod
    def close(node: Node, why: str, *, wrong: bool = False) -> None:
        """The node gets no more children."""
        node.closed, node.wrong = node.closed or why, node.wrong or wrong

    # ---- selection ----

    def expandable(self, node: Node) -> bool:
        """Return True if the node itself may get one more child."""
        wide = sum(not child.wrong for child in node.children) >= self.widening.width(node.visits)
        return not node.closed and node.depth < self.depth and not wide

    def live(self, node: Node) -> bool:
        """Return True if the node, or one below it, may get a child."""
        return self.expandable(node) or any(self.live(child) for child in node.children)

    def select(self) -> Node | None:
        """The node to expand next; None if no node may get a child. Equal scores: the older child, a new one last."""
        node = self.root
        while True:
            scores = [(self.score(child), child) for child in node.children if self.live(child)]
            if self.expandable(node):
                scores.append((self.score_of_new(node), None))
            if not scores:
                return None
            best = max(scores, key=lambda one: one[0])[1]
            if best is None:
                return node
            node = best

    def score(self, child: Node) -> float:
        """PUCT."""
        return self._puct(child.parent, child.value, child.prior, child.visits)

    def score_of_new(self, node: Node) -> float:
        """PUCT of the child that the node does not have yet."""
        return self._puct(node, node.reward, _mean_prior(node), 0)

    def _puct(self, parent: Node, value: float, prior: float, visits: int) -> float:
        shared = sum(child.prior for child in parent.children)
        if self.expandable(parent):
            shared += _mean_prior(parent)
        return value + self.c * prior / shared * math.sqrt(parent.visits) / (1 + visits)

    # ---- what a person reads ----

    @staticmethod
    def path(node: Node | None) -> Iterator[Node]:
        """The node and those above it, up to the root."""
        while node is not None:
            yield node
            node = node.parent

    def principal(self) -> list[Node]:
        """From the root, the right child with the most visits, of equals the one with the higher value, then the
        older."""
        path = [self.root]
        while right := [child for child in path[-1].children if not child.wrong]:
            path.append(max(right, key=lambda n: (n.visits, n.value, -n.number)))
        return path


def _mean_prior(node: Node) -> float:
    """The prior of a child that does not exist yet."""
    return sum(child.prior for child in node.children) / len(node.children) if node.children else 1.0
