"""Frozen encoders: nets from elsewhere that turn a sample into a feature vector, never trained."""
