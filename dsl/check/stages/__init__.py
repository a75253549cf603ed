"""The checks of each kind of stage."""
