"""What an editor shows: completion, hover, formatting, edits and repairs of a program's text."""
