"""From samples to what a model is trained on: rows of files, token ids, batches."""
