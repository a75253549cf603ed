"""What both back ends plan alike, before either writes text."""
