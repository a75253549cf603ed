"""The Django app: the log of sessions, the pages that show it, the socket that follows it. No torch."""
