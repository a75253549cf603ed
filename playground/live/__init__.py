"""The event log: its writer, its poller and its viewers."""
