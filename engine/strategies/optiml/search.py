"""The script of `optiml`: the mixture gives the root of the tree, or the owner does; then edit after edit is evaluated.

One evaluation: select a node, profile and judge its candidate (once for each node), have a model edit it, try the edit,
ask the guardrail, reward it, and carry the reward up to the root. An edit that repeats a trial is not evaluated: its
node gets no more children. Wrong candidates stay in the tree with the reward 0 and are not edited.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from engine.llm.prompts import facts as prompt_facts
from engine.llm.replies import MOST_TEXT
from engine.session.fold.profile import stage_in_words
from engine.strategies.api import Finished, Script, Show, Try, Unsuitable, Verb
from engine.strategies.optiml import figures, guardrail, record, reward
from engine.strategies.optiml.mixture import MOST_REPEATED, Mixture
from engine.strategies.optiml.replies import Bottleneck, KernelEdit, ProgramEdit
from engine.strategies.optiml.tree import Node, Tree, Widening
from engine.strategies.writing import Writer
from engine.words import count

if TYPE_CHECKING:
    from engine.strategies.optiml.options import OptimlOptions

NOTHING_GIVEN = (
    "There is no candidate to start from. Paste a kernel below the module, or a program of the language, or choose the "
    'start "words".'
)
NOT_RIGHT = 'The search cannot start from the {} that was given. {} {}, or choose the start "words".'
FULL = "The search tree has no node left to edit."
REPEATS = "The last {} edits of the model repeat earlier trials."
MOST_SIBLINGS = 24
MOST_EARLIER = 60  # trials in a prompt beside those of its history, without their reasons


class Search:
    """One session. `trials`, `figures`: by node; `best`: the node of the incumbent, the last one that the guardrail
    accepted."""

    def __init__(self, writer: Writer, options: OptimlOptions):
        o = self.options = options
        self.writer = writer
        self.tree = Tree(o.exploration / 100, o.depth, Widening(o.widen_base, o.widen_growth))
        self.weights = reward.Weights(
            o.weight_time, o.weight_memory, o.weight_compute, o.weight_occupancy, float(o.bound)
        )
        self.trials: dict[int, Finished] = {}
        self.figures: dict[int, figures.Figures] = {}
        self.best: int | None = None
        self.evaluations = 0
        self.repeated = 0  # edits in a row that repeat a trial
        self._diagnoses: dict[int, tuple[Bottleneck | None, str]] = {}
        self._principal: list[int] = []

    def run(self) -> Script:
        first = yield from (self._given() if self.options.start == "given" else self._written())
        if first is None:
            return self.writer.stop or f"No first candidate was right in {count(self.evaluations, 'trial')}."
        yield from self._evaluated(self.tree.root, first, None, "the first candidate", "", record.NOT_WRITTEN)
        yield from self._fit()
        while self.evaluations < self.options.evaluations:
            if self.writer.stop:
                return self.writer.stop
            if self.repeated >= MOST_REPEATED:
                return REPEATS.format(self.repeated)
            node = self.tree.select()
            if node is None:
                return FULL
            yield from self._expand(node)
        return self.writer.used(self.options.evaluations, "evaluation")

    @property
    def incumbent(self) -> Finished | None:
        return None if self.best is None else self.trials[self.best]

    # ---- the root ----

    def _written(self) -> Generator[Verb, Any, Finished | None]:
        """The first candidate, from the mixture."""
        mixture = Mixture(self.writer, self.options)
        first = yield from mixture.first()
        self.evaluations = mixture.evaluations
        return first

    def _given(self) -> Generator[Verb, Any, Finished | None]:
        """Only optimise: the owner's fastest right candidate, else the program of the session. Raises Unsuitable."""
        writer, problem = self.writer, self.writer.problem
        own = [t for t in problem.start.trials if t.by == "owner" and guardrail.rule(t, None).right]
        first = min(own, key=lambda t: (t.ms is None, t.ms or 0.0, t.number), default=None)
        if first is None and problem.task.source_kind == "program":
            candidate = problem.candidate(problem.task.source)
            first = yield from writer.tried(Try(candidate, "the given program", "only optimise: the start of the tree"))
            self.evaluations += 1
        if first is None:
            raise Unsuitable("nothing_given", self._no_start())
        writer.form = first.form  # edits stay in the form of what was given
        if first.form == "kernel":
            writer.refiner = None
        why = f"Only optimise: the search starts from trial {first.number}, the {first.form} that was given."
        writer.state = yield Show("mixture", {"rows": [], "choose": "given", "why": why})
        return first if guardrail.rule(first, None).right else None

    def _no_start(self) -> str:
        """Why there is nothing to optimise: the owner handed nothing in, or the last candidate is not right."""
        last = self.writer.own
        if last is None:
            return NOTHING_GIVEN
        reason = guardrail.rule(last, None).reason
        way_out = "Start the session where it can run" if last.cannot_run_here else "Mend it"
        return NOT_RIGHT.format(last.form, reason if reason.endswith((".", "…")) else f"{reason}.", way_out)

    def _fit(self) -> Generator[Verb, Any, None]:
        """Fit the widening to the evaluations that are left for the tree, and show its rules."""
        o, writer = self.options, self.writer
        used = sum(t.by == "strategy" for t in writer.state.trials)
        evaluations = 1 + max(0, min(o.evaluations - self.evaluations, writer.share - used))
        self.tree.widening = self.tree.widening.fitted(evaluations, o.levels)
        yield from self._show("rules", record.rules(self.tree, evaluations, o.levels, o.widen_growth))

    # ---- one evaluation ----

    def _expand(self, node: Node) -> Generator[Verb, Any, None]:
        """Edit the node's candidate and evaluate the edit."""
        writer, trial = self.writer, self.trials[node.number]
        profile = yield from writer.look(trial)
        diagnosis, missing = yield from self._judge(node, profile)
        expects = ProgramEdit if writer.form == "program" else KernelEdit
        reply, verb, repeated = yield from writer.candidate_of(
            "optiml/edit", expects, trial.number, **self._facts(node, profile=profile, diagnosis=diagnosis)
        )
        self.repeated = self.repeated + 1 if repeated else 0
        if repeated:
            why = f"The edit of trial {trial.number} is trial {repeated} again, so it is not tried."
            self.tree.close(node, why)
            yield from self._show("guardrail", {"node": node.number, "trial": None, "kind": "repeated", "reason": why})
            return
        edit = yield from writer.tried(verb)
        self.evaluations += 1
        value = reply.value if isinstance(reply.value, ProgramEdit | KernelEdit) else None
        child = self.tree.add(node, value.confidence if value is not None else 0.0)
        targets = value.targets if value is not None else ""
        yield from self._evaluated(child, edit, diagnosis, verb.change, targets, missing)

    def _judge(self, node: Node, profile: dict[str, Any] | None) -> Generator[Verb, Any, tuple[Bottleneck | None, str]]:
        """The diagnosis of a node's candidate, once, and why there is none."""
        if not self.options.judge:
            return None, record.NO_JUDGE
        if node.number not in self._diagnoses:
            reply = yield from self.writer.ask(
                "optiml/judge", Bottleneck, **self._facts(node, profile=profile, known=self._known(node))
            )
            value = reply.value if isinstance(reply.value, Bottleneck) else None
            self._diagnoses[node.number] = value, "" if value else record.NO_DIAGNOSIS.format(reply.reason)
        return self._diagnoses[node.number]

    def _evaluated(
        self, node: Node, trial: Finished, diagnosis: Bottleneck | None, change: str, targets: str, missing: str
    ) -> Generator[Verb, Any, None]:
        """Rule, reward, carry the reward up, and show all of it."""
        ruling = guardrail.rule(trial, self.incumbent, self.options.tolerance / 100)
        parent = self.trials[node.parent.number] if node.parent else None
        self.trials[node.number] = trial
        own = figures.Figures()
        value = reward.Reward(reward.WRONG, note="not right, so its reward is 0")
        if ruling.right:
            own = figures.of(trial, self.writer.problem.hardware, *(yield from self._counted(trial)))
            value = reward.of(own, self._reference(node, own), self.weights, slower=ruling.kind == guardrail.SLOWER)
        else:
            self.tree.close(node, ruling.reason, wrong=True)
        self.figures[node.number] = own
        if ruling.kind == guardrail.ACCEPTED:
            self.best = node.number
        self.tree.evaluate(node, value.value)
        incumbent = self.incumbent.number if self.incumbent else None
        yield from self._show(
            "node",
            record.node(
                self.tree, node, trial, parent, change=change, words=prompt_facts.words(trial), targets=targets,
                reward=value, ruling=ruling, diagnosis=record.diagnosis(diagnosis, missing), figures=own,
                incumbent=incumbent,
            ),
        )  # fmt: skip
        if ruling.kind in guardrail.REJECTED:
            rejected = {"node": node.number, "trial": trial.number, "kind": ruling.kind, "reason": ruling.reason}
            yield from self._show("guardrail", rejected)
        path = self.tree.principal()
        if [n.number for n in path] != self._principal:
            self._principal = [n.number for n in path]
            yield from self._show("path", record.principal(path, self.trials, incumbent))

    def _counted(self, trial: Finished) -> Generator[Verb, Any, tuple[dict[str, float], str]]:
        """What Nsight Compute counts of a right trial, and why it counts nothing. Each edit is profiled, as in the
        study: its proxies are compared with its reference's, which are counted as well."""
        writer = self.writer
        if not self.options.profile:
            return {}, figures.NO_PROFILE
        if writer.problem.device_kind != "measured":
            return {}, figures.NOT_RUN
        if trial.form == "kernel":
            return {}, figures.RAW
        yield from writer.look(trial)
        return writer.counts.get(trial.number, {}), figures.NOT_COUNTED

    def _reference(self, node: Node, own: figures.Figures) -> figures.Figures:
        """The figures that a node's are compared with."""
        if node.parent is None:
            return own
        if self.options.reference == "parent":
            return self.figures[node.parent.number]
        if self.options.reference == "incumbent" and self.best is not None:
            return self.figures[self.best]
        return self.figures[0]

    def _show(self, topic: str, facts: dict[str, Any]) -> Generator[Verb, Any, None]:
        self.writer.state = yield Show(topic, facts)

    # ---- facts of prompts ----

    def _facts(self, node: Node, **more: Any) -> dict[str, Any]:
        """The facts of a turn on a node's candidate."""
        trial, changes = self.trials[node.number], self.writer.changes
        above = [self.trials[n.number] for n in reversed(list(self.tree.path(node)))]
        lineage = [
            {"number": t.number, "cls": t.cls, "change": changes.get(t.number, f"tried by the {t.by}"),
             "words": prompt_facts.words(t)}
            for t in above[:-1]
        ]  # fmt: skip
        siblings = [self.trials[child.number].number for child in node.children][-MOST_SIBLINGS:]
        of_node = {
            "node": {
                "number": trial.number, "words": prompt_facts.words(trial), "text": trial.text[:MOST_TEXT],
            },
            "lineage": lineage, "siblings": siblings, "earlier": self._earlier(),
        }  # fmt: skip
        return self.writer.facts(**of_node, **more)

    def _earlier(self) -> list[dict[str, Any]]:
        """The trials that the history of a prompt leaves out, so that no edit repeats one."""
        ended = self.writer.state.trials[: -prompt_facts.MOST_TRIALS]
        changes = self.writer.changes
        return [
            {"number": t.number, "cls": t.cls, "change": changes.get(t.number, f"tried by the {t.by}"),
             "words": f"{t.ms:.4g} ms" if t.ms is not None else "no time"}
            for t in ended[-MOST_EARLIER:]
        ]  # fmt: skip

    def _known(self, node: Node) -> list[str]:
        """Lines for the judge: the figures of the candidate, and its stages by the model of the GPU."""
        own, trial = self.figures[node.number], self.trials[node.number]
        known = {name: own.known(name) for name in (*figures.NAMES, "instructions")}
        lines = [
            f"{name}: {figures.in_words(name, value)}, {figures.source(name, by)}"
            for name, (value, by) in known.items() if value is not None
        ]  # fmt: skip
        lines += [f"{name}: not known, because {why}" for name, why in own.missing.items() if known[name][0] is None]
        if self.options.profile:
            lines += [f"stage {stage_in_words(stage)}" for stage in trial.stages[:8]]
        return lines
