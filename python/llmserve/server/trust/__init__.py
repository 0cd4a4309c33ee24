"""Whom the server trusts: the only place that knows about proxies, host names, origins and keys.

Each module is one rule. A rule that guards the routes is called with an ASGI scope and raises a refusal;
`web/gate.py` calls them in turn.
"""
