"""What the text of a raw kernel shows before it runs."""
