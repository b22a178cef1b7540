"""What runs in the next step, and what its result means: the deciding half of a step."""

from engine.schedule.outputs import Outputs
from engine.schedule.scheduler import Scheduler

__all__ = ["Outputs", "Scheduler"]
