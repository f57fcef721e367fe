"""The class above all errors of qflow. It imports nothing, so that every room may have it, the engine too."""


class QflowError(Exception):
    """Base class of all errors of qflow: wrong requests, queues, workloads and files.

    >>> import qflow as qf
    >>> try:
    ...     qf.kit_path("recipes")
    ... except qf.QflowError as error:
    ...     print(type(error).__name__)
    RefusalError
    """
