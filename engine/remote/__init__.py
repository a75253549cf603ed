"""A running playground from a terminal: start a session there, and follow a session or a workshop's room."""
