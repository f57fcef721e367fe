"""The exercises: typical wrong answers to each, and the engine's own answer; imported whole."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
