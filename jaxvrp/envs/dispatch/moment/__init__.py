"""A moment of a day: driven on by hand, written as JSON, read, and planned again."""

from jaxvrp.envs.dispatch.moment.by_hand import decided, replanned, with_requests
from jaxvrp.envs.dispatch.moment.file import moment_of, parse_moment, pending

__all__ = ["decided", "moment_of", "parse_moment", "pending", "replanned", "with_requests"]
