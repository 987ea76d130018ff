"""Addresses, the HTTP client, and pages served to people on this machine."""
