"""Language models: access to them, the account of their tokens and money, prompts, and the forms of replies."""
