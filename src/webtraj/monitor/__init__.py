"""Watching rollouts while they run: in the terminal, or as a page in a browser.

* `watching`: `RunMonitor`, which looks at what a run writes; `status`: what it sees, as data.
* `tailing`: journals read as they grow.
* `screen`: a status in the terminal; `page`, `static/`: in a browser, by `local_pages`.
"""

from webtraj.monitor.status import Cell, RunStatus, Writer
from webtraj.monitor.watching import RunMonitor

__all__ = ["Cell", "RunMonitor", "RunStatus", "Writer"]
