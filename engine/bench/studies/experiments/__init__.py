"""Experiments with search policies: on recorded logs, and with the rehearsal as the model.

    python -m engine.bench.studies.experiments --propose engine/results/proposals-DATE.json     # before the runs
    python -m engine.bench.studies.experiments --proposals engine/results/proposals-DATE.json --json experiments.json
                                               [--only NAME,..] [--problems P,..] [--skills X,..] [--seeds N,..]
                                               [--device cuda]

With OPENAI_API_KEY and UCUTLASS_MODEL in the environment that model answers, as in `engine compare`; its experiments
stand apart from the rehearsed ones, under headings that name it, and need no --proposals.

arms.py        the experiments as data, each with what it can and cannot show
               (the distribution of proposals is that of engine.bench.compare.proposals)
recorded.py    stop policies, the scheduler and Attempt-Fast-p on logs of earlier sessions
report.py      Markdown of all of it

Nothing about language models or prompts follows from a rehearsal: rules wrote each reply, and all arms draw from one
distribution, so that only selection, memory and stopping differ.
"""
