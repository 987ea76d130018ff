"""Looking at trajectories: a local web page on datasets, and an episode as one HTML file.

Modules, from the data to the page:

* `episode`, `steps`, `calls`, `values`, `pictures`: an episode as plain JSON data.
* `rows`, `table`, `columns`, `queries`: the episodes of a list, and what is asked of them.
* `iterations`: success by iteration.
* `labels`: what people say of episodes.
* `following`, `source`: one dataset, which is looked at while it is written.
* `finding`, `gathering`, `viewer`: several, and those that come to a folder.
* `app`, `serving`: what is answered over HTTP; to whom, `local_pages` says.
* `page`, `bundling`, `exporter`: an episode as one HTML file.
"""
