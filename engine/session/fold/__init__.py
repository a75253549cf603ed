"""The fold of a session's log into a typed view, and the figures of that view. Needs only plotly."""
