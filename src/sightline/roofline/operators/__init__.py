"""What an operator has to compute and to move, from its recorded shapes.

Floating-point operations of products, convolutions and fused attention; the least traffic of these
and of everything that passes over its tensors once. What an operator does beyond that (workspaces,
second passes) is what it can be rid of.
"""

from __future__ import annotations

from sightline.roofline.operators import attention, convolutions, products, streaming
from sightline.roofline.operators.arguments import Arguments
from sightline.roofline.operators.work import OperatorWork

MODELS = {**products.MODELS, **convolutions.MODELS, **attention.MODELS, **streaming.MODELS}


def count_operator_work(name: str, args: Arguments) -> OperatorWork | None:
    """The work of one call of an operator; None where it has no model or its arguments no sense."""
    model = MODELS.get(name)
    return None if model is None else model(args)
