"""Speed of light: how fast the work could possibly run. Pure Python and numbers; no torch, no Django."""
