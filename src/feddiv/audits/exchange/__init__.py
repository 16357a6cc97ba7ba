"""Doubtful labels on their way to annotation tools, and what was decided there on its way back."""
