"""Datasets: reading, checking and mending what collectors wrote."""
