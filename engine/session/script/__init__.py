"""Run a strategy's script: its verbs and models' turns, the lanes that run their steps, and its state."""
