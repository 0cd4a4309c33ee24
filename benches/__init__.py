"""Measurements against llama.cpp's own tools, as ratios taken in one run: `python -m benches --help`."""
