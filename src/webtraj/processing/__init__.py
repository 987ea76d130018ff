"""Processing: from recorded datasets to others, step by step, the recorded ones left as they are.

`base` says what a step is, `steps/` has those that ship, `pipeline` runs them over a dataset.
"""
