"""The exercises, each with its right answer and typical wrong ones; all modules are imported at once."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
