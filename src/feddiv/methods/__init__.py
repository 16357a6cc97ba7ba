"""Methods: one file each, against the contract in `contract.py`."""
