"""Schemas of the Protobuf package `webtraj`."""
