"""Requests of visitors and their limits: requests, limits, tokens, and the middleware."""
