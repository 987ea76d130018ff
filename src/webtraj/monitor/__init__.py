"""Watch rollouts while they run.

* `watching`: `RunMonitor`, which reads the files of a run; `status`: its status as data.
* `tailing`: journals, read as they grow.
* `screen`: the terminal display. The viewer shows a run too (`webtraj.viewer.runs`).
"""

from webtraj.monitor.status import Cell, RunStatus, Writer
from webtraj.monitor.watching import RunMonitor

__all__ = ["Cell", "RunMonitor", "RunStatus", "Writer"]
