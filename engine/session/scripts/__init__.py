"""How a strategy's script is played: its verbs answered from the log or on the lanes, the owner heard between."""
