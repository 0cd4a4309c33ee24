"""The docs of a dataclass's attributes, for tables that are made from it."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Mapping


def docs_of(cls: type) -> Mapping[str, str]:
    """The strings below the attributes of a class, which Python drops: they are read from the source."""
    module = sys.modules[cls.__module__]
    try:
        source = inspect.getsource(module)
    except OSError:  # an installation without sources works, and documents less
        return {}
    body = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )
    return {
        before.target.id: " ".join(node.value.value.split())
        for before, node in itertools.pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
