"""Look at datasets and at rollouts while they run: a local web page, a terminal screen, HTML files.

An episode:

* `values`, `episode`: an episode as plain JSON data. `page`: the page as one HTML file.
* `report`: results and comparisons, as data for the page and as one HTML file.
* `table`: the list of episodes and its queries; `iterations`: success by iteration.
* `labels`: people's labels of episodes.

A run, from the files that it writes in any case:

* `journals`: journals of open episodes, read as they grow. `status`: a run's status as data.
* `monitor`: `RunMonitor`, which returns the status at any moment.

Shown:

* `source`: one dataset, followed while it is written; `collection`, `viewer`: several datasets.
* `app`: the viewer's HTTP interface, live runs included; `local_pages` guards it.
* `screen`: a run in the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.view.monitor import RunMonitor as RunMonitor
    from webtraj.view.status import Cell as Cell
    from webtraj.view.status import RunStatus as RunStatus
    from webtraj.view.status import Writer as Writer
    from webtraj.view.viewer import Viewer as Viewer

_HOMES = {
    "Cell": "status",
    "RunMonitor": "monitor",
    "RunStatus": "status",
    "Viewer": "viewer",
    "Writer": "status",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
