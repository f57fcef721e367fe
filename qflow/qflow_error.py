"""The base class of all errors of qflow. This module imports nothing, so that every other can import it."""


class QflowError(Exception):
    """Base class of all errors of qflow, such as refused requests, invalid workloads and unreadable files.

    >>> import qflow as qf
    >>> try:
    ...     qf.kit_path("recipes")
    ... except qf.QflowError as error:
    ...     print(type(error).__name__)
    RefusalError
    """
