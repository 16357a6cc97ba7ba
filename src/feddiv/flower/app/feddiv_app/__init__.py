"""A Flower app whose two halves are the installed feddiv."""
