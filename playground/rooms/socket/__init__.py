"""The socket of a room: one poller of the watched rooms, and what each viewer may read of their logs."""
