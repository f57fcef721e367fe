"""In place of a package that works out a grammar for two seconds when it is imported.

``jsonschema`` imports it where it is installed, and does without where it is not: it would check addresses
that hold more than ASCII.  Everything that reads a notebook or shows a chart imports ``jsonschema``: each
kernel and each JupyterLab that the tests start.
"""

raise ImportError("the tests check no such addresses")
