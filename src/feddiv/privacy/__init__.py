"""Private filters: what clients say of their labels, so that the server learns only sums of it.

Values and steps of the protocols are here; who carries the messages is `feddiv.federation`'s.
"""
