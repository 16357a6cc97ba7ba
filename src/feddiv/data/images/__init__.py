"""Images in files: listed first, then decoded once into a file that all processes map."""
