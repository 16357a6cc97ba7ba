"""Samples that a frozen encoder turns into feature vectors, once, into a cache on disk."""
