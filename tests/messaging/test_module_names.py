"""The modules that programs find in `qpid.messaging`, under the same names."""

import pytest
from commands import run_python


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("exceptions", "Empty MessagingError NotFound LinkError SessionError"),
        ("util", "auto_fetch_reconnect_urls"),
        ("message", "Message Disposition timestamp"),
        ("endpoints", "Connection Session Sender Receiver Endpoint"),
        ("constants", "UNLIMITED REJECTED RELEASED AMQP_PORT AMQPS_PORT"),
        ("address", "parse"),
    ],
)
def test_a_module_is_there_after_the_import(module, names):
    """In a fresh Python: another test may have imported the module."""
    code = f"import qflow.messaging as m; print([getattr(m.{module}, name) for name in {names.split()}])"
    done = run_python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    star = f"from qflow.messaging.{module} import {', '.join(names.split())}"
    assert run_python("-c", star).returncode == 0


def test_they_are_the_same_things():
    import qflow.messaging as m

    assert m.endpoints.Connection is m.Connection and m.message.Message is m.Message
    assert m.exceptions.Empty is m.Empty and m.constants.UNLIMITED is m.UNLIMITED
