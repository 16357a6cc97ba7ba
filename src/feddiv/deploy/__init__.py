"""Setting up many machines."""
