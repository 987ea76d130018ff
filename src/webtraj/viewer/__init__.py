"""Looking at trajectories: a local web page on datasets, and an episode as one HTML file.

Modules, from the data to the page:

* `episode`, `steps`, `calls`, `values`, `pictures`: an episode as plain JSON data.
* `table`, `columns`, `queries`: the episodes of a list, and what is asked of them.
* `labels`: what people say of episodes.
* `following`, `source`, `viewer`: one dataset that is looked at while it is written, and several.
* `app`, `serving`: what is answered over HTTP; to whom, `local_pages` says.
* `page`, `bundling`, `exporter`: an episode as one HTML file.
"""
