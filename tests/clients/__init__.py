"""Clients as they come from PyPI, each set in an environment of its own, beside the checkout's.

`environment` makes them from `requirements/*.lock`, once, in the cache; `running` runs the programs here
(`*_checks.py`) in them and brings back what each of their checks found.
"""
