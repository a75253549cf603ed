"""What each architecture and each family of products may be configured as; `dsl.legal` is the door."""
