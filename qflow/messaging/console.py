"""A console as scripts know it from ``qmf.console``: objects with their statistics, and their methods.

>>> from qflow.messaging import Connection
>>> sender = Connection.establish("doc-console").session().sender("orders; {create: always}")
>>> sender.send("to do")
>>> console = Session()
>>> broker = console.addBroker("doc-console")
>>> queue = console.getObjects(_class="queue", name="orders")[0]
>>> queue.msgDepth, queue.purge(0).status
(1, 0)
>>> queue.update(); queue.msgDepth
0
"""

# ruff: noqa: N802, N803  (the names are the real console's)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qflow.broker.errors import ManagementError
from qflow.messaging.hosts import DEFAULT_URL, Host, brokers
from qflow.messaging.qmf import METHODS, call, find_object, find_objects

OK = 0


class MethodResult:
    """The answer to a method call: status (0, or what CF-08 lists), text, and output arguments."""

    def __init__(self, status: int, text: str, outArgs: dict[str, Any]) -> None:
        self.status = status
        self.text = text
        self.outArgs = outArgs

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("outArgs", {}):
            return self.outArgs[name]
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"{self.text} ({self.status}) - {self.outArgs}"


class Object:
    """A managed object: its values (as of the last :meth:`update`) and methods are attributes."""

    def __init__(self, host: Host, content: dict[str, Any]) -> None:
        self._host = host
        self._content = content

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_content", {}).get("_values", {})
        if name in values:
            return values[name]
        if name in METHODS.get(self.getClassKey(), ()):
            return self._method(name)
        raise AttributeError(f"{self.getObjectId()} has neither a value nor a method {name!r}")

    def __repr__(self) -> str:
        return str(self.getObjectId())

    def getObjectId(self) -> str:
        """Return the object's identity."""
        return str(self._content["_object_id"]["_object_name"])

    def getClassKey(self) -> str:
        """Return the name of the object's class."""
        return str(self._content["_schema_id"]["_class_name"])

    def getProperties(self) -> dict[str, Any]:
        """Return all values by their names."""
        return dict(self._content["_values"])

    def update(self) -> None:
        """Take the values as they are now.

        Raises
        ------
        LookupError
            The object is gone.
        """
        with self._host:
            found = find_object(self._host.broker, self.getObjectId())
        if found is None:
            raise LookupError(f"{self.getObjectId()} is gone")
        self._content = found

    def _method(self, name: str) -> Callable[..., MethodResult]:
        names = METHODS[self.getClassKey()][name]

        def invoke(*args: Any, **kwargs: Any) -> MethodResult:
            if len(args) > len(names):
                raise TypeError(f"{name} takes {', '.join(names)}; got {len(args)} arguments")
            arguments = dict(zip(names, args, strict=False)) | kwargs
            with self._host:
                try:
                    found = call(self._host.broker, self.getObjectId(), name, arguments)
                except ManagementError as error:
                    return MethodResult(error.status, error.text, {})
            return MethodResult(OK, "OK", found)

        return invoke


class Session:
    """Finds the objects of the brokers that were added to it."""

    def __init__(self) -> None:
        self._hosts: list[Host] = []

    def addBroker(self, target: object = DEFAULT_URL) -> Host:
        """Add the broker behind a URL; return a handle of it."""
        host = brokers.host(target)
        if host not in self._hosts:
            self._hosts.append(host)
        return host

    def delBroker(self, broker: Host) -> None:
        """Remove a broker, by its handle."""
        self._hosts.remove(broker)

    def close(self) -> None:
        """Remove all brokers."""
        self._hosts.clear()

    def getObjects(self, **wanted: Any) -> list[Object]:
        """Return the objects of a class whose values are as wanted.

        Parameters
        ----------
        _class : str
            broker, queue, exchange, binding, session, subscription, connection.
        _broker : Host
            Only this broker's, by its handle.
        **wanted : object
            Values by their names, such as ``name="orders"``.
        """
        kind = str(wanted.pop("_class", ""))
        only = wanted.pop("_broker", None)
        wanted.pop("_package", None)
        return [
            Object(host, content)
            for host in self._hosts
            if only is None or host is only
            for content in _objects(host, kind)
            if all(content["_values"].get(key) == value for key, value in wanted.items())
        ]


def _objects(host: Host, kind: str) -> list[dict[str, Any]]:
    with host:
        return find_objects(host.broker, kind)


__all__ = ["MethodResult", "Object", "Session"]
