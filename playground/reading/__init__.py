"""Reading a module while it is typed: an engine traces it, the web process prices its graph and shows its limit."""
