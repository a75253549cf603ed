# expect: syntax_error
# says: paste a Python file with `class Model(nn.Module)`
hello, please make my kernel fast  # HERE
