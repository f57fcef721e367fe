"""In place of the debugger, which every kernel that tests start would import: a third of its start.

``ipykernel`` does without where it is not installed, and says that it has no debugger.
"""

raise ImportError("the tests debug no cell")
