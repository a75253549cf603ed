"""How a lesson is written: its form, the small language of its answers, and the reader that makes a Lesson of it."""
