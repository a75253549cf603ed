"""A rehearsal: a small server that speaks chat completions and answers each role by rule. No model wrote its replies.

It knows what its prompt says and nothing else, above all not which strategy asks. Its candidates are the planner's own
for the work in the prompt, drawn from one distribution; `skill` is the share of replies without a mistake.
"""

MODEL = "rehearsed"  # the model's name in every reply: pages show it
