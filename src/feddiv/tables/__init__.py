"""Many runs together: sweeps, the tables made of them, the paper's tables and figures."""
