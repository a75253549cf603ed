"""The texts in the source, for the tests that each of them has a translation."""

import ast


def holes(node: ast.expr) -> str | None:
    """A text of the source with {} for each value in it; None for another expression."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in values)
    return None


def texts_in(node: ast.expr) -> set[str]:
    """The sentences of an expression: itself, or the texts of its branches."""
    if isinstance(node, ast.JoinedStr | ast.Constant):
        return {text for text in [holes(node)] if text and " " in text}
    return {text for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr) for text in texts_in(child)}
