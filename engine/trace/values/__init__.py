"""Values that are the same in every call: of a tensor that the constructor makes, of a mask of attention."""
