"""How a strategy's script is played: its verbs and models' turns, the lanes that run their steps, and its state."""
