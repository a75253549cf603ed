"""From an op graph to a program of the language: the rules, the drafts and the pipeline of one class."""
