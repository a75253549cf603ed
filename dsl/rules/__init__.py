"""What each architecture and each family of products may be configured as; `dsl.rules.legal` is the door."""
