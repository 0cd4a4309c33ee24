"""Wheels that run on other machines: linked for old systems, with ggml's code for several CPUs."""
