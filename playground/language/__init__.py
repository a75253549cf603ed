"""The language on the page and over HTTP: check, complete, compile, and the reference pages."""
