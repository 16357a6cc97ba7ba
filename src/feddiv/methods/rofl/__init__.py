"""RoFL and the parts that only it uses."""
