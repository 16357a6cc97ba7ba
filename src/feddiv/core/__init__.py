"""What everybody uses: errors, options, randomness, files, trees of values, array types."""
