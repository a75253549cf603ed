"""The event log and its readers: who writes it, who polls it, who watches it."""
