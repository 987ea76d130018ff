"""Collectors: who keeps the episodes that environments yield. The protocol is in `base`."""
