"""The draw: who holds which samples, under which labels."""
