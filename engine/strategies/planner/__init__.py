"""The default strategy: lowers a module by rules, ranks configurations by the attainable model, measures few."""
