"""Drag and drop, files, canvases and maps."""
