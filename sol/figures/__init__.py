"""Figures as plotly JSON, each with the table that says the same."""
