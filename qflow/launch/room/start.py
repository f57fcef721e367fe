#!/usr/bin/env python3
"""Start qflow on a laptop in a room without network, from the folder this file lies in.

python start.py             install qflow into this folder (once), look the laptop over, open the chapters
python start.py --check     the same, but open nothing: for the days before
"""
# Any Python can read this file, so that an old one gets a sentence and not a traceback.

import os
import subprocess
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_OLDEST = (3, 11)


def main(arguments):
    """Install, check, open; return the exit status."""
    if sys.version_info < _OLDEST:
        print("This is Python %d.%d; qflow needs %d.%d or newer." % (sys.version_info[:2] + _OLDEST))
        print("Ask your teacher for an installer, then: python3 start.py")
        return 1
    unknown = [argument for argument in arguments if argument != "--check"]
    if unknown:
        print("start.py takes --check or nothing, got %s" % unknown[0])
        return 2
    python = os.path.join(
        _HERE, "environment", *(["Scripts", "python.exe"] if os.name == "nt" else ["bin", "python"])
    )
    # Written last, so that an installation that was interrupted is begun anew.
    done = os.path.join(_HERE, "environment", "complete")
    if not os.path.exists(done) and not _install(python, done):
        return 1
    learner = os.path.join(_HERE, "chapters")
    if not os.path.isdir(learner):
        os.mkdir(learner)
    looked = subprocess.call([python, "-m", "qflow", "doctor", "--dir", learner])
    if looked or "--check" in arguments:
        return looked
    return subprocess.call([python, "-m", "qflow", "lab", "--dir", learner])


def _install(python, done):
    print("Installing qflow into %s; this takes a minute or two, and no network." % os.path.dirname(done))
    sys.stdout.flush()
    steps = [
        [sys.executable, "-m", "venv", "--clear", os.path.join(_HERE, "environment")],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        + ["--find-links", os.path.join(_HERE, "wheels"), "qflow-kit[lab]"],
    ]
    for step in steps:
        if subprocess.call(step):
            print("This did not work: %s" % " ".join(step))
            print("Show these lines to your teacher.")
            return False
    with open(done, "w") as file:
        file.write("")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
