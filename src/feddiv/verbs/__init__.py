"""What one does with feddiv in Python; the verbs of the command line. `feddiv` has them all."""
