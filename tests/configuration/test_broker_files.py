"""qpidd.conf as installers write it, and as old releases left it; the options that modules bring."""

from __future__ import annotations

import json

import pytest
from commands import output_of

from qflow.broker.errors import StartupError
from qflow.broker.options import MODELLED, NOT_MODELLED
from qflow.configuration.declaration import BrokerSetup, explain_unknown

FILES = {
    "an installer's": (
        "auth=no\nacl-file=/etc/qpid/qpid.acl\nmax-connections=65530\nworker-threads=17\n",
        [],
    ),
    "of an HA pair": (
        "auth=no\nha-cluster=yes\nha-brokers-url=a,b\nha-username=ha\nha-mechanism=PLAIN\n",
        [],
    ),
    "with a store": ("store-dir=/x\nnum-jfiles=8\njfile-size-pgs=24\nwcache-num-pages=16\ntruncate=no\n", []),
    "for 1.0": ("queue-patterns=q.\nqueue-patterns=r.\ntopic-patterns=t.\ndomain=x\n", []),
    "with all of log": (
        "log-enable=info+\nlog-enable=debug+:ha\nlog-hires-timestamp=yes\nlog-to-file=/x\n",
        [],
    ),
    "of 0.22": (
        "async-queue-events=no\njfile-size-pgs=24\nnum-jfiles=8\ncluster-mechanism=ANONYMOUS\n"
        "max-connections-per-user=0\n",
        [
            "Bad argument: |async-queue-events=no|  (an option of an older release)",
            "Bad argument: |cluster-mechanism=ANONYMOUS|  (an option of clustering, removed between 0.18 "
            "and 0.20",
            "|max-connections-per-user=0|  (an option of an older release; 1.40 has "
            "connection-limit-per-user",
        ],
    ),
    "with every kind of fault": (
        "default-flow-stop-treshold=90\nauth=maybe\ndefault-queue-limit=10K\nauth=yes\nauth=no\n"
        "default-flow-stop-threshold=60\nlog-level=info\nport\n",
        [
            "|default-flow-stop-treshold=90|  (did you mean default-flow-stop-threshold?)",
            "the argument ('maybe') for option 'auth' is invalid",
            "the argument ('10K') for option 'default-queue-limit' is invalid",
            "option 'auth' cannot be specified more than once",
            "the argument ('info') for option 'log-level' is invalid",
            "Bad argument: |port|",
            "flowStopRatio=60 flowResumeRatio=70",
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_or_refused_with_all_its_faults(tmp_path, name):
    text, problems = FILES[name]
    path = tmp_path / "qpidd.conf"
    path.write_text(text)
    try:
        setup = BrokerSetup.read([], {}, str(path))
    except StartupError as error:
        told = str(error).split("\n")
        assert len(told) == len(problems)
        assert all(part in problem for part, problem in zip(problems, told, strict=True))
    else:
        assert problems == []
        assert len(setup.uses) == len({line.partition("=")[0] for line in text.splitlines()})


def test_faults_of_both_places_are_told():
    with pytest.raises(StartupError) as raised:
        BrokerSetup.read(["--no-such-thing"], {}, "/no/such/file")
    first, second = str(raised.value).split("\n")
    assert "unrecognised option '--no-such-thing'" in first and "cannot read configuration file" in second


@pytest.mark.parametrize("row", range(10))
def test_each_option_of_the_broker_and_its_modules_is_known(row):
    """The list is of the broker's sources; a name that is in none of its modules is refused."""
    modules = [
        "default-queue-limit default-flow-stop-threshold default-flow-resume-threshold max-purge-batch "
        "default-event-threshold-ratio default-message-group enable-timestamp queue-purge-interval",
        "session-max-unacked auth realm sasl-service-name sasl-config require-encryption max-negotiate-time "
        "connection-backlog worker-threads interface listen-disable protocols port tcp-nodelay",
        "data-dir no-data-dir paging-dir mgmt-enable mgmt-publish mgmt-qmf1 mgmt-qmf2 mgmt-pub-interval "
        "known-hosts-url link-maintenance-interval link-heartbeat-interval dtx-default-timeout "
        "dtx-max-timeout federation-tag",
        "config client-config module-dir load-module no-module-dir daemon transport pid-dir pidfile close-fd "
        "wait check quit kill socket-fd",
        "trace log-enable log-disable log-time log-level log-source log-thread log-function "
        "log-hires-timestamp log-category "
        "log-prefix log-to-stderr log-to-stdout log-to-file log-to-syslog syslog-name "
        "syslog-facility",
        "acl-file connection-limit-per-user connection-limit-per-ip max-connections max-queues-per-user",
        "domain queue-patterns topic-patterns",
        "ha-cluster ha-queue-replication ha-brokers-url ha-public-url ha-replicate ha-username ha-password "
        "ha-mechanism ha-backup-timeout ha-flow-messages ha-flow-bytes",
        "store-dir truncate wcache-page-size wcache-num-pages tpl-wcache-page-size tpl-wcache-num-pages "
        "efp-partition efp-file-size overwrite-before-return journal-flush-timeout num-jfiles jfile-size-pgs "
        "tpl-num-jfiles tpl-jfile-size-pgs",
        "ssl-port ssl-require-client-authentication ssl-sasl-no-dict ssl-use-export-policy ssl-cert-name "
        "ssl-cert-password-file ssl-cert-db",
    ]
    assert set(modules[row].split()) <= NOT_MODELLED | set(MODELLED)


@pytest.mark.parametrize(
    "name", ["cluster-name", "staging-threshold", "auto-expand", "max-connections-per-user"]
)
def test_what_old_releases_had_is_named(name):
    assert name not in NOT_MODELLED and explain_unknown(name)
    assert explain_unknown("nothing-like-it") == ""


def test_the_command_without_an_action_prints_the_options(capsys, tmp_path):
    path = tmp_path / "qpidd.conf"
    path.write_text(FILES["of an HA pair"][0] + "default-flow-stop-threshold=90\n")
    said = output_of(capsys, "config", "--broker-config", path)
    assert "ha-mechanism" in said and "no effect on flow control" in said and "changes what queues do" in said
    told = json.loads(output_of(capsys, "config", "--broker-config", path, "--json"))["broker"]["options"]
    assert {one["module"] for one in told} == {"broker", "HA"}
    path.write_text(FILES["of 0.22"][0])
    said = output_of(capsys, "config", "--broker-config", path, "add", "queue", "q", status=1)
    assert said.startswith("the broker does not start\n") and said.count("Bad argument") == 3
