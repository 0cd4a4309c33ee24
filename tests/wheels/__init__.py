"""Tests of the wheel, and what they need."""
