"""Strategies compared under equal budgets: `python -m engine compare --strategies A,B,C PROBLEMS`.

request.py    arms, cells and budgets             sharing.py    what sessions on one problem share on a modelled device
play.py       one session, trial by trial         models.py     who answers: the rehearsal or a real endpoint
order.py      one budget over all problems        row.py        a session's log as a row of the results
work.py       cells on this process or on several results.py    the results file, which a later call continues
metrics.py, filters.py, charts.py, report.py      the figures of the report
proposals.py  what the rehearsal draws from, in a file that is committed before the runs
"""
