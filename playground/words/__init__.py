"""Plain English -> a PyTorch module as text, by rules, for the tab Words of the playground.

words.write(text) is the door. The rules run in the web process and import neither torch nor the engine. They live in
this room because they serve the page and the API alone: their result is a PyTorch module that a person confirms, not a
program of the language. Words beyond the rules can go to a model, which an engine asks (playground.live.descriptions).

    tokens      the text as words, numbers and sizes, each with its place
    vocabulary  the words of operations, attributes and types, and those that carry no meaning here
    scan        tokens -> operations and attributes in their order
    request     each attribute goes to its operation or to the input
    shapes      the shape of the input, and of each result
    layers      one operation -> the lines of its module
    blocks      the same for those of several layers: perceptron, gated unit, attention, separable convolution
    writer      the whole module, and what was understood, assumed and not understood
    api         the way to a model, over HTTP
"""
