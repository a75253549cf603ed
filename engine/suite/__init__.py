"""The 59 problems of the suite, each as programs written by hand: every program against its module, in error and time.

    python -m engine suite [--device cuda|modelled:h200] [--only L1/1,conv2d_wide] [--seconds S] --json OUT

A problem is a module of engine/problems whose first line names it `(suite59 L1/55)`; its programs are the files of
dsl/examples/suite59 with `# module: NAME` in their first line. Each problem is one session whose strategy only tries
these programs, with each back end that takes them. The trial pipeline and the evaluator are those of every session.

cases    the problems and programs
given    the strategy: given programs, in their order
runner   the sessions, and the results file; continues where it stopped
table    the results for people
command  `python -m engine suite`
"""
