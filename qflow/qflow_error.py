"""The class above all errors of qflow. It imports nothing, so that every room may have it, the engine too."""


class QflowError(Exception):
    """Any error of qflow's own: catch it for whatever is wrong with a request, a queue, a workload or a file.

    >>> import qflow as qf
    >>> try:
    ...     qf.kit_path("recipes")
    ... except qf.QflowError as error:
    ...     print(type(error).__name__)
    RefusalError
    """
