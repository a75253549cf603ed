"""Benches: many sessions over a set of modules, their results file, the report of it, and studies of the machine.

    python -m engine bench suite59|outside|heldout --json OUT [--class tf32 ..] [--trials N] [--compile] [--strategy S]
                                                   [--only ID,..] [--shard I/N] [--seconds S]

Each problem is one session, as a page starts it: the same evaluator, strategy, budget and screening, with the page's
defaults. It begins from the results in this repository without the problem's own, and teaches nothing. The results
file is both the report and the state: a finished session is not run again, a cut one goes on where its log ends.

run/        which problems, their sessions one after the other, the results file         (no torch)
report/     what a results file comes to: speedups, tables, figures, what is committed   (no torch)
studies/    the guard's cost, the pace of trials, steadiness of times, sweeps of products
"""
