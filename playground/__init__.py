"""The Django app: the log of sessions, the pages that show it, the socket that streams it. No torch."""
