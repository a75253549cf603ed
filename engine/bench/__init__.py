"""The planner over a whole set of modules on a real GPU, in one call that can be cut short and gone on with.

    python -m engine bench suite59 --device cuda --class tf32 --class f16 --json OUT [--trials 3] [--seconds S]
                                   [--jobs 12] [--compile] [--only ID,..] [--shard I/N]

Every module of the set is traced, lowered by the planner, built ahead in parallel, verified against itself in float64
and timed in alternation with eager TF32. A module that no single program is becomes its regions, each a problem. The
results file is both the report and the state: a later call with more trials goes on from what the first ones found, and
the baselines are timed once. Without `--window` no stop rule ends a module before its trials are made, so `--trials 24`
records sessions that `python -m engine replay OUT` can cut under any rule.

wanted       what is asked                                                                  (no torch)
plan         a module's graph, its planner in each class, its regions, the trials to come    (no torch)
planning     the search: modules and regions traced and planned in a thread, wave by wave    (no torch)
runner       asks the child for trials and baselines, writes after every answer              (no torch)
book         the results file, and which baselines it holds for this machine                 (no torch)
judge        what a trial is worth: speedups, gap, score, verdict, the best of a class       (no torch)
table        what it comes to: a line a problem, geometric means, what failed                (no torch)
coverage     what of each module is covered, and how fast that part is                       (no torch)
shards       the set over several GPUs of one host, and their results as one                 (no torch)
compilers    torch.compile ahead in other processes, which take turns on the GPU             (no torch)
child        the process that owns the GPU: suite's, with baselines and tracing              (torch)
region       a module, or a region of it as a module                                         (torch)
precompile   a module into Inductor's caches                                                 (torch)
"""
