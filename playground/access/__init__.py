"""What a visitor may ask for and how often: requests, limits, tokens, and the middleware in front."""
