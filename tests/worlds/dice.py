"""Random numbers that a name decides, so that removing a cause changes no other draw."""

import math
import random

PREEMPTED_SHARE = 0.0015  # of host calls that the operating system interrupts
SLOW_KERNEL_SHARE = 0.002  # of kernels that take much longer than their siblings


class Dice:
    """Draws that depend on a seed and a place in the program, and on nothing drawn elsewhere."""

    def __init__(self, *place: object):
        self.random = random.Random("/".join(str(part) for part in place))

    def spread(self, ns: float, sigma: float = 0.03) -> int:
        """A length around `ns` (ns): log-normal, its median unchanged."""
        return max(1, round(ns * math.exp(self.random.gauss(0.0, sigma))))

    def host(self, ns: float) -> int:
        """The length of some host work (ns): a wide spread, and now and then a preemption."""
        luck = self.random.random()
        length = self.spread(ns, 0.22)
        stolen = self.random.uniform(50_000, 500_000)
        return length + (round(stolen) if luck < PREEMPTED_SHARE else 0)

    def kernel(self, ns: float) -> int:
        """The length of a kernel (ns): a narrow spread with a thin tail."""
        luck = self.random.random()
        length = self.spread(ns, 0.015)
        tail = self.random.uniform(1.1, 1.5)
        return round(length * tail) if luck < SLOW_KERNEL_SHARE else length
