"""Looking at trajectories: a local web page on datasets, and an episode as one HTML file.

Modules, from the data to the page:

* `values`, `episode`: an episode as plain JSON data.
* `table`: the episodes of a list, and what is asked of them; `iterations`: success by iteration.
* `labels`: what people say of episodes.
* `source`: one dataset, which is looked at while it is written; `gathering`, `viewer`: several.
* `app`: what is answered over HTTP; to whom, `local_pages` says.
* `page`: an episode as one HTML file.
"""
