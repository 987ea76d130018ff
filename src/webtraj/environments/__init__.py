"""Environments: the contract (`base`), the recording wrapper (`collecting`), bridges, browsers."""
