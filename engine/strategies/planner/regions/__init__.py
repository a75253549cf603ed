"""A module that no single program covers: its regions, and what of it is covered."""
