"""Texts as samples: how they are held, read from files, and made a data set."""
