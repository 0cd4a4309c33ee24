"""Prompts that take a vocabulary to make: texts beside token ids, and code to be filled in."""
