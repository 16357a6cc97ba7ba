"""Many machines: the folder of a deployment, and a demonstration on one machine."""

DEMO_ROUNDS = 3
