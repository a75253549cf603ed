"""The test before and after a room's lessons: the same skills, asked about modules that no lesson shows."""
