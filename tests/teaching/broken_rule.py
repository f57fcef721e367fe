"""Runs a chapter's source on an engine of which one rule is broken.

``python broken_rule.py MODULE OLD NEW CHAPTER`` changes the module's text as it is loaded, in this
process only, and writes nothing.  The status is that of the chapter: 1 if it fails.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from pathlib import Path


class _Breaker(importlib.machinery.SourceFileLoader):
    """Loads the module with a text of it replaced; there has to be one such text."""

    old = new = ""

    def get_code(self, fullname):
        text = Path(self.path).read_text("utf-8")
        if text.count(self.old) != 1:
            sys.exit(f"{self.path} has {text.count(self.old)} times: {self.old}")
        return self.source_to_code(text.replace(self.old, self.new).encode(), self.path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module that is broken, and no other."""

    def __init__(self, module, old, new, top):
        self.module, self.top = module, top
        _Breaker.old, _Breaker.new = old, new

    def find_spec(self, fullname, path, target=None):
        if fullname != self.module:
            return None
        file = str(self.top / (fullname.replace(".", "/") + ".py"))
        return importlib.util.spec_from_file_location(fullname, file, loader=_Breaker(fullname, file))


def main(module, old, new, chapter):
    top = Path(__file__).parents[2]
    sys.path.insert(0, str(top))
    sys.meta_path.insert(0, _Finder(module, old, new, top))
    os.chdir(top / "notebooks")
    runpy.run_path(str(top / "notebooks" / "sources" / f"{chapter}.py"), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
