"""The broker that a configuration is tried on: options read as qpidd reads them (rules.md#broker-options)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qflow.broker.errors import StartupError
from qflow.broker.options import (
    COMMAND_LINE,
    NOT_MODELLED,
    BrokerOptions,
    Given,
    convert,
    ignored_variables,
    ignored_words,
    read_options,
)
from qflow.configuration.declaration import Remark


@dataclass(frozen=True, slots=True)
class BrokerSetup:
    """What a broker is started with, and where each option came from."""

    options: BrokerOptions = field(default_factory=BrokerOptions)
    given: tuple[Given, ...] = ()
    ignored: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, arguments: Iterable[str] = (), environment: Mapping[str, str] | None = None, file: str = ""
    ) -> BrokerSetup:
        """Return what a command line, an environment and the file of ``--config``, or else ``file``, give."""
        words, variables = list(arguments), environment or {}
        named = read_options(words, variables, check=convert).get("config")
        path = named.text if named else file
        given = read_options(words, variables, _lines(path) if path else (), path, convert)
        options, ignored = BrokerOptions.of_given(given), ignored_variables(variables)
        return cls(options, tuple(given.values()), ignored, ignored_words(words))

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """Names of options that were given and have no effect here."""
        return tuple(given.name for given in self.given if given.name in NOT_MODELLED)

    def remarks(self) -> Iterator[Remark]:
        """Yield what to know about the options."""
        without = [name for name in self.not_modelled if name != "config"]
        if without:
            yield Remark("note", f"broker options that change nothing in this model: {', '.join(without)}")
        for variable in self.ignored:
            yield Remark("warning", f"the variable {variable} names no option; qpidd ignores it in silence")
        for word in self.words:
            yield Remark("warning", f"the word {word} is no option; qpidd ignores it in silence")

    def asdict(self) -> dict[str, object]:
        """Return the options as plain values."""
        options = [{"name": given.name, "value": given.text, "from": given.source} for given in self.given]
        return {"options": options, "not_modelled": list(self.not_modelled)}

    def text(self) -> str:
        """Return the options as on qpidd's command line; "" if none was given."""
        return "\n".join(
            f"--{given.name}={given.text}"
            + ("" if given.source == COMMAND_LINE else f"   from {given.source}")
            for given in self.given
        )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise StartupError(
            f"Error in configuration file {path}: cannot read configuration file {path}"
        ) from error
