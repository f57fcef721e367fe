"""What a broker is started with: command line, environment, file, keywords (rules.md#broker-options)."""

from __future__ import annotations

from dataclasses import fields

import pytest
from support import words_of

from qflow.broker import Broker, BrokerOptions, Message
from qflow.broker.errors import StartupError
from qflow.broker.options import MODELLED, NOT_MODELLED, read_options
from qflow.configuration.declaration import BrokerSetup

CLI = "Error in command line options: "
ENV = "Error in environment variables: "
CONF = "Error in configuration file qpidd.conf: "
LIMIT = "--default-queue-limit"
STOP, RESUME = "--default-flow-stop-threshold", "--default-flow-resume-threshold"


def refusal(*arguments: str, environment: dict | None = None, lines: tuple[str, ...] = ()) -> str:
    with pytest.raises(StartupError) as raised:
        BrokerOptions.parse(arguments, environment, lines)
    return str(raised.value)


# Values


@pytest.mark.parametrize(
    ("option", "value", "attribute", "converted"),
    [
        ("default-queue-limit", "10000", "default_queue_limit", 10_000),
        ("default-queue-limit", "+7", "default_queue_limit", 7),
        ("default-queue-limit", "-5", "default_queue_limit", 4_294_967_291),
        ("default-queue-limit", "4294967295", "default_queue_limit", 4_294_967_295),
        ("default-event-threshold-ratio", "150", "default_event_threshold_ratio", 150),
        ("default-event-threshold-ratio", "-1", "default_event_threshold_ratio", 65_535),
        ("default-message-group", "EMPTY-GROUP", "default_message_group", "EMPTY-GROUP"),
        ("default-message-group", "", "default_message_group", ""),
        ("enable-timestamp", "yes", "enable_timestamp", True),
        ("enable-timestamp", "ON", "enable_timestamp", True),
        ("enable-timestamp", "0", "enable_timestamp", False),
        ("queue-purge-interval", "30", "queue_purge_interval", 30),
        ("queue-purge-interval", "2s", "queue_purge_interval", 2),
        ("queue-purge-interval", "5000ms", "queue_purge_interval", 5),
        ("queue-purge-interval", "0.5", "queue_purge_interval", 0.5),
        ("queue-purge-interval", "500ms", "queue_purge_interval", 0.5),
        ("queue-purge-interval", "2.3", "queue_purge_interval", 2.3),
        ("queue-purge-interval", "1e3", "queue_purge_interval", 1000),
        ("queue-purge-interval", "-1", "queue_purge_interval", -1),
        ("queue-purge-interval", "0x10", "queue_purge_interval", 16),
        ("max-purge-batch", "1", "max_purge_batch", 1),
        ("message-size", "content", "message_size", "content"),
        ("wake-up", "eager", "wake_up", "eager"),
        ("flow-control", "java", "flow_control", "java"),
        ("start-time", "1", "start_time", 1),
    ],
)
def test_values_of_every_modelled_option(option, value, attribute, converted):
    """The broker's options, and this model's own dials (DQ-09, MG-13, ALT-01): the same from three places."""
    for options in (
        BrokerOptions.parse([f"--{option}", value]),
        BrokerOptions.parse([], {"QPID_" + option.upper().replace("-", "_"): value}),
        BrokerOptions.parse([], {}, [f"{option}={value}"]),
    ):
        assert getattr(options, attribute) == converted


def test_defaults_are_those_of_the_table():
    """Without options; and each attribute can be given as an option."""
    assert BrokerOptions.parse() == BrokerOptions()
    assert [field.name.replace("_", "-") for field in fields(BrokerOptions)] == [*MODELLED]
    defaults = BrokerOptions()
    assert (defaults.default_queue_limit, defaults.default_event_threshold_ratio) == (104_857_600, 80)
    assert (defaults.default_flow_stop_threshold, defaults.default_flow_resume_threshold) == (80, 70)
    assert (defaults.default_message_group, defaults.enable_timestamp) == ("qpid.no-group", False)
    assert (defaults.queue_purge_interval, defaults.max_purge_batch) == (600, 1000)


INVALID = "the argument ('{}') for option '{}' is invalid"
UNCAUGHT = ": it ends the real broker by an uncaught exception, what(): Invalid argument"
BOOL = ". Valid choices are 'on|off', 'yes|no', '1|0' and 'true|false'"


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("default-queue-limit", "5000000000", ""),
        ("default-queue-limit", "4294967296", ""),
        ("default-queue-limit", "1.5", ""),
        ("default-event-threshold-ratio", "65536", ""),
        ("default-flow-stop-threshold", "80%", ""),
        ("enable-timestamp", "maybe", BOOL),
        ("max-purge-batch", "many", ""),
        ("queue-purge-interval", "soon", ""),
        ("queue-purge-interval", "1 s", ""),
        ("queue-purge-interval", "0xG", ""),
        ("queue-purge-interval", "nan", UNCAUGHT),
        ("queue-purge-interval", "inf", UNCAUGHT),
        ("queue-purge-interval", "99999999999", UNCAUGHT),
        ("queue-purge-interval", "1.0005", ": this model of the broker counts whole milliseconds here"),
    ],
)
def test_an_invalid_option_value_is_refused_in_the_brokers_words(option, value, reason):
    """Refused; on the command line the option is named with its dashes, elsewhere without."""
    assert refusal(f"--{option}", value) == CLI + INVALID.format(value, f"--{option}") + reason
    variable = "QPID_" + option.upper().replace("-", "_")
    assert refusal(environment={variable: value}) == ENV + INVALID.format(value, option) + reason
    line = f"{option}={value}"
    assert refusal(lines=(line,)) == CONF + INVALID.format(value, option) + reason


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"default_queue_limit": "10"}, "default_queue_limit: got '10', allowed is a value like 104857600"),
        ({"default_queue_limit": -1}, "default_queue_limit: got -1, allowed are whole numbers from 0"),
        (
            {"queue_purge_interval": float("nan")},
            "queue_purge_interval: got nan, allowed is a value like 600",
        ),
        ({"enable_timestamp": 1}, "enable_timestamp: got 1, allowed is a value like False"),
        ({"message_size": "both"}, "message_size: got 'both', allowed are 'encoded', 'content'"),
        ({"wake_up": "never"}, "wake_up: got 'never', allowed are 'faithful', 'eager'"),
    ],
)
def test_an_invalid_keyword_is_refused_with_what_is_allowed(keywords, text):
    assert words_of(StartupError, BrokerOptions, **keywords) == text


# The command line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--default-msg-group", "x"], "unrecognised option '--default-msg-group'"),
        (["--default-msg-group=x"], "unrecognised option '--default-msg-group'"),
        (["-z"], "unrecognised option '-z'"),
        (["--default-flow-stop-threshold", ""], f"the argument for option '{STOP}' is invalid"),
        (["--default-queue-limit"], "the required argument for option '--default-queue-limit' is missing"),
        (
            ["--default-queue-limit", "--auth", "no"],
            "the required argument for option '--default-queue-limit' is missing",
        ),
        (
            ["--default-queue-limit="],
            "the argument for option '--default-queue-limit' should follow immediately after the equal sign",
        ),
        (
            ["--auth=no", "--auth=yes"],
            "option '--auth' cannot be specified more than once",
        ),
        (
            ["--default-flow=80"],
            "option '--default-flow' is ambiguous and matches '--default-flow-resume-threshold', and "
            "'--default-flow-stop-threshold'",
        ),
    ],
)
def test_command_lines_that_are_refused(words, text):
    """X-03: unknown options in general are refused, the example of the group documentation too."""
    assert refusal(*words) == CLI + text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--default-queue-limit", "٨"], f"{CLI}{INVALID.format(chr(92) + 'xD9' + chr(92) + 'xA8', LIMIT)}"),
        (["--übel"], rf"{CLI}unrecognised option '--\xC3\xBCbel'"),
        (["--default-queue-limit", "1\n2"], f"{CLI}the argument ('1\n2') for option '{LIMIT}' is invalid"),
    ],
)
def test_rf_57_a_refusal_shows_the_bytes_that_are_not_ascii(words, text):
    """RF-57: in hexadecimal; a newline breaks the line."""
    assert refusal(*words) == text


def test_rf_57_two_dashes_end_the_options():
    """RF-57: what follows is ignored, as is a word that begins with --=."""
    words = [STOP, "90", "--", RESUME, "nonsense", "--default-queue-limit=x"]
    assert BrokerOptions.parse(words) == BrokerOptions(default_flow_stop_threshold=90)
    assert BrokerSetup.read(words).words == (RESUME, "nonsense", "--default-queue-limit=x")
    assert BrokerOptions.parse(["--=5", STOP, "90"]) == BrokerOptions(default_flow_stop_threshold=90)


def test_rf_57_an_option_that_wants_a_text_takes_the_next_word():
    options = BrokerOptions.parse(["--default-message-group", "--default-queue-limit"])
    assert options == BrokerOptions(default_message_group="--default-queue-limit")


def test_rf_47_stray_words_are_ignored():
    """RF-47: as qpidd does; but the explanation mentions them."""
    words = ["default-queue-limit=7", f"{STOP}=90", "-", "--auth", "no", "yes"]
    assert BrokerOptions.parse(words) == BrokerOptions(default_flow_stop_threshold=90)
    setup = BrokerSetup.read(words)
    assert setup.words == ("default-queue-limit=7", "-", "yes")
    assert "default-queue-limit=7 is no option" in [remark.text for remark in setup.remarks()][1]


@pytest.mark.parametrize(("interval", "purged"), [(0.5, 3), (1, 2), (0, 0), (-1, 0)])
def test_rf_47_the_cleaner_runs_as_often_as_it_is_told(interval, purged):
    """QT-07: of three messages that die within a second and a half; a negative interval never runs."""
    broker = Broker(BrokerOptions(queue_purge_interval=interval))
    session = broker.session("p")
    session.queue_declare("q")
    for ttl in (100, 600, 1100):
        session.message_transfer(Message(1, "q", ttl=ttl))
    broker.advance(1_600_000)
    assert broker.queue("q").statistics().discardsTtl == purged
    assert Broker(BrokerOptions(queue_purge_interval=float(interval))).state_hash() == (
        Broker(BrokerOptions(queue_purge_interval=interval)).state_hash()
    )


def test_the_start_of_a_name_is_enough():
    assert BrokerOptions.parse(["--default-flow-s=90"]).default_flow_stop_threshold == 90


def test_letters_switches_and_repeated_options():
    given = read_options(["-p", "5673", "-m", "no", "-d", "--log-enable", "a", "--log-enable", "b"])
    assert {name: option.text for name, option in given.items()} == {
        "port": "5673",
        "mgmt-enable": "no",
        "daemon": "yes",
        "log-enable": "b",
    }


@pytest.mark.parametrize(
    "name",
    ["auth", "realm", "port", "tcp-nodelay", "worker-threads", "max-negotiate-time", "dtx-default-timeout",
     "dtx-max-timeout", "mgmt-enable", "mgmt-publish", "mgmt-pub-interval", "mgmt-qmf2", "mgmt-qmf1",
     "session-max-unacked"],
)  # fmt: skip
def test_options_without_an_effect_here(name):
    """Those with no effect: accepted, and reported."""
    assert name in NOT_MODELLED
    setup = BrokerSetup.read([f"--{name}=1"])
    assert (setup.options, setup.not_modelled) == (BrokerOptions(), (name,))
    assert next(setup.remarks()).text == f"broker options that change nothing in this model: {name}"


# Environment and configuration file


def test_the_command_line_wins_over_environment_and_file():
    """Command line before environment before file, option by option."""
    options = BrokerOptions.parse(
        ["--default-queue-limit=1"],
        {"QPID_DEFAULT_QUEUE_LIMIT": "2", "QPID_MAX_PURGE_BATCH": "2"},
        ["default-queue-limit=3", "max-purge-batch=3", "queue-purge-interval=3"],
    )
    assert options == BrokerOptions(default_queue_limit=1, max_purge_batch=2, queue_purge_interval=3)


def test_a_space_in_a_value():
    """Kept on the command line and in a variable, taken off in a file."""
    assert refusal("--default-queue-limit", " 1") == CLI + INVALID.format(" 1", "--default-queue-limit")
    assert BrokerOptions.parse([], {}, ["default-queue-limit= 1 "]).default_queue_limit == 1


def test_ratios_are_checked_together_after_reading():
    """FC-10: one from the file, the other from the command line."""
    assert BrokerOptions.parse([f"{STOP}=60"], {}, ["default-flow-resume-threshold=50"])
    assert "flowStopRatio=60 flowResumeRatio=65" in refusal(
        f"{STOP}=60", lines=("default-flow-resume-threshold=65",)
    )


def test_a_value_that_loses_is_still_checked():
    assert refusal("--auth=no", lines=("default-queue-limit=x",)).startswith(CONF)


def test_variables_that_name_no_option_are_ignored():
    """As qpidd does; but the explanation mentions them."""
    variables = {"QPID_DEFAULT_MSG_GROUP": "x", "HOME": "/", "QPID_PORT": "1", "qpid_auth": "no"}
    assert BrokerOptions.parse([], variables) == BrokerOptions()
    setup = BrokerSetup.read([], variables)
    assert (setup.ignored, setup.not_modelled) == (("QPID_DEFAULT_MSG_GROUP",), ("port",))
    assert "QPID_DEFAULT_MSG_GROUP" in list(setup.remarks())[-1].text


def test_lines_of_a_configuration_file():
    """Comments, empty lines, spaces after the sign, a comment behind the value; quotes stay."""
    lines = [
        "# the limits\n",
        "\n",
        "   # indented",
        "\t",
        "default-queue-limit= 10000   # ten thousand\r\n",
        'default-message-group="none"',
        "auth=no",
    ]
    options = BrokerOptions.parse([], {}, lines)
    assert options == BrokerOptions(default_queue_limit=10_000, default_message_group='"none"')


@pytest.mark.parametrize(
    "line",
    ["default-msg-group=x", "default-queue-limit = 1", " auth=no", "auth", "--auth=no", "default-queue=1"],
)
def test_lines_that_are_refused(line):
    """An unknown name, or a space before the equals sign."""
    assert refusal(lines=(line,)) == f"{CONF}Bad argument: |{line}|"


def test_an_option_twice_in_a_file():
    assert refusal(lines=("auth=no", "auth=no")) == f"{CONF}option 'auth' cannot be specified more than once"


@pytest.mark.parametrize("place", ["command line", "environment", "given", "given and named"])
def test_the_file_is_found(tmp_path, place):
    """Named on the command line or by a variable, else the one that is given."""
    path = tmp_path / "qpidd.conf"
    path.write_text("default-queue-limit=5\nport=1\n")
    words = [f"--config={path}"] if "command" in place or "named" in place else []
    variables = {"QPID_CONFIG": str(path)} if place == "environment" else {}
    setup = BrokerSetup.read(words, variables, str(path) if "given" in place else "")
    assert setup.options.default_queue_limit == 5
    assert "port" in setup.not_modelled
    assert f"--port=1   from configuration file {path}" in setup.text()


def test_a_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "none.conf"
    assert (
        words_of(StartupError, BrokerSetup.read, [], {}, str(path))
        == f"Error in configuration file {path}: cannot read configuration file {path}"
    )


def test_what_was_given_as_data():
    setup = BrokerSetup.read([f"{STOP}=90"], {"QPID_AUTH": "no"})
    told = setup.asdict()
    assert [(one["name"], one["value"], one["from"]) for one in told["options"]] == [
        ("default-flow-stop-threshold", "90", "command line options"),
        ("auth", "no", "environment variables"),
    ]
    assert told["not_modelled"] == ["auth"]
