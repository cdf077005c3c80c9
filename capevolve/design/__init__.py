"""What a design can show and what it costs, told before anything is spent. Pure but for `measured`."""

from capevolve.design.hopeless import find_hopeless, refuse_hopeless_gate
from capevolve.design.measured import read_price, read_variance
from capevolve.design.outline import design_of, read_sizes
from capevolve.design.values import Design, Figure, Price, Sizes, Variance
from capevolve.design.wording import describe_design

__all__ = [
    "Design",
    "Figure",
    "Price",
    "Sizes",
    "Variance",
    "describe_design",
    "design_of",
    "find_hopeless",
    "read_price",
    "read_sizes",
    "read_variance",
    "refuse_hopeless_gate",
]
