"""The viewer: a local web page for datasets, and an episode as one HTML file.

Modules, from the data to the page:

* `values`, `episode`: an episode as plain JSON data.
* `table`: the list of episodes and its queries; `iterations`: success by iteration.
* `labels`: people's labels of episodes.
* `source`: one dataset, followed while it is written; `gathering`, `viewer`: several datasets.
* `app`: the HTTP interface; `local_pages` guards it.
* `page`: an episode as one HTML file.
"""
