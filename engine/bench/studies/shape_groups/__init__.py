"""Tune one configuration over a group of shapes, and report it at each shape and at shapes that it has not seen.

    python -m engine.bench.studies.shape_groups --json out.json                         # raw CUDA templates, on a GPU
    python -m engine.bench.studies.shape_groups --device modelled:h200 --json out.json  # programs, predicted

For each problem of engine.suite.shape_groups, at every shape: a plain copy of as many bytes as the kernel reads and
writes (`copies`), torch.compile by the kernels' clock (`rivals`), a session of `two_stage` (one configuration per
shape) and direct rewriting, `chain` with as many trials. Then the fastest configurations of the tuned shapes at each of
them, from which the general one is chosen (`folds`), and the general one at the unseen shapes. In kernel form each
session starts from the problem's naive CUDA source. Rows and sessions are written as they come, and the same command
goes on after a stop. The rehearsal plays the model unless --own-model asks the model of the environment; no model wrote
a rehearsed template, and a prediction is no measurement.

    clock.py     what is timed beside the sessions, and what becomes of a failure
    copies.py    the time of a plain copy, by the clock of raw kernels
    rivals.py    the time of torch.compile, by the same clock
    study.py     the sessions of one problem, and its row
    folds.py     what the log of one session comes to, and the general configuration
    rows.py      shares, means and the table of a row
"""
