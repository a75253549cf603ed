"""Findings in the text of a raw kernel before it runs."""
