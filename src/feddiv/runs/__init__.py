"""Runs: the one round loop, and what it writes."""
