"""Federations: who carries the messages between the round loop and the clients."""
