"""Tiny web agents that learn on two CPU cores.

* `pointing`: the prompt, the replies, the agent `pointing` and the dialect of that name;
  `page_items` describes a page in a few words an element.
* `random_agent`: the agent `random_pointing`, which explores what `pointing` can do.
* `scratch`: a model with random weights, and the command that makes one.
* `learn_at_forks`: an experiment: groups at forks beside groups from the start.
* `pixel_tasks`: pages that cannot be solved without looking; `pixel_model`, a model for them;
  `learn_from_pixels`, an experiment.
* `local_model`: a model in this process, without a server.
* `decisions`: recorded steps as prompts; `export`: the training format `pointing`.

The agent `pointing` knows no task, answer or page of a benchmark. It learns from recorded episodes
only: from successes, and from relabelled failures (`webtraj.processing`, hindsight). The model for
pages of pixels knows their goals, which are one token each, and begins with an oracle's clicks.

webtraj finds all of it by the entry points in `pyproject.toml`.
"""
