"""Check a kernel that a person or a model wrote: is it right, and does it do the work itself?

engine.devices checks the output of our own compiler; this package checks raw CUDA C++ and Python. It uses three
processes that share only memory set up between them:

    reference    the pasted module, confined; it alone knows what is right (engine.evaluate.reference.module_process)
    candidate    the text under suspicion, confined; it gets values and gives values (candidate_main)
    judge        ours, with torch; makes the values, compares, keeps fingerprints (judge_main)

The engine draws every seed after the candidate is loaded. Reports of the candidate's process (types, threads, names of
functions) only ever count against it; in its favour count only values that the judge read and a clock outside.
"""
