"""The test of a room: what each seat is asked before and after the lessons, and the report of what moved."""
