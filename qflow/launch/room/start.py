#!/usr/bin/env python3
"""Start qflow on a laptop in a classroom without a network, from the folder that holds this file.

python start.py             install qflow into this folder (once), check the laptop, open the chapters
python start.py --check     install and check, but open nothing: for the days before the workshop
"""
# The syntax is that of old Pythons, so that a Python too old for qflow prints a sentence and no traceback.

import io
import json
import os
import platform
import subprocess
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def main(arguments):
    """Install, check, and open the chapters; return the exit status."""
    with io.open(os.path.join(_HERE, "made-for.json"), encoding="utf-8") as file:
        made = json.load(file)
    lacking = _compare(made)
    if lacking:
        print(lacking)
        return 1
    unknown = [argument for argument in arguments if argument != "--check"]
    if unknown:
        print("start.py takes --check or nothing, got %s" % unknown[0])
        return 2
    python = os.path.join(
        _HERE, "environment", *(["Scripts", "python.exe"] if os.name == "nt" else ["bin", "python"])
    )
    # This marker file is written last, so that an interrupted installation starts again from the beginning.
    done = os.path.join(_HERE, "environment", "complete")
    if not os.path.exists(done) and not _install(python, done, made["with"]):
        return 1
    learner = os.path.join(_HERE, "chapters")
    if not os.path.isdir(learner):
        os.mkdir(learner)
    looked = subprocess.call(
        [python, "-m", "qflow", "doctor", "--dir", learner] + ["--spark"] * ("spark" in made["with"])
    )
    if looked or "--check" in arguments:
        return looked
    return subprocess.call([python, "-m", "qflow", "lab", "--dir", learner])


def system_name():
    """Return the operating system of this laptop, as ``qflow workshop --for`` spells it."""
    system = platform.system().lower()
    if system == "darwin":
        return "macos-arm" if platform.machine() == "arm64" else "macos-intel"
    return system


def _compare(made):
    """Return advice if this folder supports neither this system nor this Python version, else None."""
    # made["for"] lists the pairs of system and Python version that the wheels of this folder fit.
    system, python = system_name(), "%d.%d" % sys.version_info[:2]
    pythons = [its_python for its_system, its_python in made["for"] if its_system == system]
    if python in pythons:
        return None
    said = "This is Python %s on %s; this folder was made for %s." % (
        (python, system, ", ".join("Python %s on %s" % (fits, kind) for kind, fits in made["for"]))
    )
    if pythons:
        command = "py -%s start.py" if os.name == "nt" else "python%s start.py"
        said += "\nIf this machine has such a Python, start with it: %s" % (command % pythons[-1])
        said += "\nIf not, ask your teacher for an installer of Python %s, or open the site." % pythons[-1]
    else:
        said += "\nAsk your teacher for the address of the site, and open that."
    return said + "\n(The teacher makes another with: qflow workshop --for %s --python %s)" % (system, python)


def _install(python, done, extras):
    print("Installing qflow into %s; this takes a minute or two, and no network." % os.path.dirname(done))
    sys.stdout.flush()
    steps = [
        [sys.executable, "-m", "venv", "--clear", os.path.join(_HERE, "environment")],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        + ["--find-links", os.path.join(_HERE, "wheels"), "qflow-kit[%s]" % ",".join(["lab"] + extras)],
    ]
    for step in steps:
        if subprocess.call(step):
            print("This did not work: %s" % " ".join(step))
            print("Show these lines to your teacher.")
            return False
    with open(done, "wb") as file:
        file.write(b"")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
