"""Grammars in the notations of other programs, translated to the one of the engine (llguidance's Lark).

`requested` is what the dialects use; it imports `translation` with the first grammar. Its steps: `gbnf` reads
the text, `simplify` prunes it, `recursion` writes simple recursion as repetition, `lexemes` decides what
becomes a terminal, `lark` writes the result. What the grammar allows stays exactly the same.
"""
