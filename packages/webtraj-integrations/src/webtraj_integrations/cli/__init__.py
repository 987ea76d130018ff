"""The commands `webtraj mcp`, `webtraj openenv` and `webtraj otel`."""
