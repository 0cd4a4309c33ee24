"""Whom the server trusts: the only place that knows of proxies, host names, origins and keys.

Each module is one rule. A rule that stands before the routes is called with an ASGI scope and raises a
refusal; `http/gate.py` asks them in turn.
"""
