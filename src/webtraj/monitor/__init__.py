"""Watch rollouts while they run, in the terminal or in a browser.

* `watching`: `RunMonitor`, which reads the files of a run; `status`: its status as data.
* `tailing`: journals, read as they grow.
* `screen`: the terminal display; `page`, `static/`: the web page, served by `local_pages`.
"""

from webtraj.monitor.status import Cell, RunStatus, Writer
from webtraj.monitor.watching import RunMonitor

__all__ = ["Cell", "RunMonitor", "RunStatus", "Writer"]
