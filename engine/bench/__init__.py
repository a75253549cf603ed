"""Benches: many sessions over a set of modules, their results file, the report of it, and studies of the machine.

    python -m engine bench suite59|outside|heldout|FOLDER --json OUT [--class tf32 ..] [--trials N] [--compile]
                           [--strategy S] [--only ID,..] [--gpus all|N] [--at-once N] [--seconds S]

Each problem is one session, as a page starts it: the same evaluator, strategy, budget and screening, with the page's
defaults. It starts from the results in this repository without the problem's own, and teaches nothing. The results file
is both the report and the state: a finished session is not run again, and an interrupted one continues at the end of
its log.

run/        the problems, their sessions, one or several at a time on each GPU, the results file  (no torch)
compare/    strategies on the same problems under equal budgets
report/     summaries of a results file: speedups, tables, figures, committed files  (no torch)
studies/    the guard's cost, the pace of trials, steadiness of times, sweeps of products, experiments with search
"""
