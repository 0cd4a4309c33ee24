"""Whom the server trusts: the only place that knows of proxies, host names, origins and keys.

Each module is one rule. A rule that stands before the endpoints is called with an ASGI scope and raises a
refusal; `server/web/gate.py` asks them in turn.
"""
