"""Back ends: generated sources become machine code, cached by content, limited in time and memory."""
