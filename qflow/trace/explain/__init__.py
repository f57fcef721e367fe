"""Explanations: why a producer, transfer, queue, message, group or consumer is in its state."""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.trace.explain.chain import Explanation as Explanation
    from qflow.trace.explain.chain import Link as Link
    from qflow.trace.explain.chain import Section as Section
    from qflow.trace.explain.chain import Subject as Subject
    from qflow.trace.explain.question import explain as explain

open_room(__name__)
