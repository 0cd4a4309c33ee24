"""Tests of the container image, and what they need."""
