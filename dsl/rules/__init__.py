"""The legal configurations of each architecture and kind of product. The entry point is `dsl.rules.legal`."""
