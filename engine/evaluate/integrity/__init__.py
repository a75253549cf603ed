"""Is a kernel that somebody (or a model) wrote right, and does it do what it seems to do?

What is ours (the language's compiler output) is checked by engine.devices; here stands what is not: raw CUDA C++ and
Python. Three processes that share no memory but what is laid between them:

    reference    the pasted module, confined; it alone knows what is right (engine.evaluate.reference.module_process)
    candidate    the text under suspicion, confined; it gets values and gives values (candidate_main)
    judge        ours, with torch; makes the values, compares, keeps fingerprints (judge_main)

The engine draws every seed after the candidate is loaded. What the candidate's process *says* (types, threads, names
of functions) is only ever held against it; what speaks for it is values that the judge read and a clock outside.
"""
