"""Sharing a session: snapshots, notes, pins, embedded panes and cards."""
