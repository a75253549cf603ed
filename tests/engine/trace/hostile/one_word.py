# expect: no_model
# says: paste a Python file with `class Model(nn.Module)`
hello  # HERE
