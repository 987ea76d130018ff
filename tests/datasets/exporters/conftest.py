"""Datasets to export."""

from exported_datasets import catch, export, run_export, shop, wrecks  # noqa: F401
