"""Strategies choose the next trial. The trial, the budget, the checks and the events are the same for all of them.

`api` defines a strategy, `registry` finds strategies by name, `problem` is what they work on.
"""
