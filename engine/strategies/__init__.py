"""Strategies decide which trial comes next; the trial, the budget, the checks and the events are the same for all.

`api` says what a strategy is, `registry` finds them by name, `problem` is what they work on.
"""
