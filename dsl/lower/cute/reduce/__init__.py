"""Reductions, normalisations and pools of the `cute` back end."""
