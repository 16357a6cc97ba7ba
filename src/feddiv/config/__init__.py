"""The typed experiment, read from TOML and key=value settings."""
