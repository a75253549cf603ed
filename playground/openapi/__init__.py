"""The API's description of itself: the schemas of events in its document, and its page in the site's own theme."""
