"""Clients on Flower's network; nothing here is imported unless somebody asks for it."""
