"""Federated learning when labels can't be trusted."""
