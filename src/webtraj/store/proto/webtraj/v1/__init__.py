"""Version 1 of the schemas."""
