"""Processing: makes new datasets from recorded ones, step by step, without changing the originals.

`base` defines steps, `steps/` holds the built-in ones, `pipeline` runs them over a dataset.
"""
