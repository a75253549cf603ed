"""Measured results as data, one JSON file a kind and day; `collect` makes them, README.md here says from what."""
