"""What every test in the repository shares, the chapters run by nbval included."""

import os
from pathlib import Path

from nbval import plugin

# Kernels and servers that tests start shall see the qflow under test, installed or not.
_ROOT = str(Path(__file__).resolve().parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
# Nor do tests count as the progress of whoever runs them.
os.environ["QFLOW_PROGRESS"] = ""

_as_written = plugin.IPyNbFile.__init__


def _skipping_charts(self, *arguments, **named):
    # nbval has no option for this. A chart's floats may differ in their last digit from one processor to
    # another, and what stands beside it as text is compared; standard error holds warnings of other packages.
    _as_written(self, *arguments, **named)
    self.skip_compare += ("application/vnd.plotly.v1+json", "stderr")


plugin.IPyNbFile.__init__ = _skipping_charts
