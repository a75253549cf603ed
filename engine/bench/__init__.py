"""The planner over a whole set of modules on a real GPU, in one call that can be cut short and gone on with.

    python -m engine bench suite59 --device cuda --class tf32 --class f16 --json OUT [--trials 3] [--seconds S]
                                   [--jobs 12] [--compile] [--only ID,..] [--shard I/N]

Every module of the set is traced, lowered by the planner, built ahead in parallel, verified against itself in float64
and timed in alternation with eager TF32. The results file is both the report and the state: a later call with more
trials goes on from what the first ones found, and the baselines are timed once. No stop rule ends a module before
its trials are made, so `--trials 24` records sessions that `python -m sol replay OUT` can cut under any rule.

plan         a module's graph, its planner in each class, and the trials to make next        (no torch)
runner       builds ahead, asks the child, writes after every answer                         (no torch)
book         the results file, and which baselines it holds for this machine                 (no torch)
judge        what a trial is worth: speedups, gap, score, verdict, the best of a class       (no torch)
table        what it comes to: a line a problem, geometric means, what failed                (no torch)
shards       the set over several GPUs of one host, and their results as one                 (no torch)
compilers    torch.compile ahead in other processes, which take turns on the GPU             (no torch)
child        the process that owns the GPU: suite's, with baselines and tracing              (torch)
precompile   a module into Inductor's caches                                                 (torch)
"""
