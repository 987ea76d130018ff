"""Settings: files and flags checked against types, objects made by name, and secrets."""
