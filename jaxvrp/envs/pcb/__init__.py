"""Component placement: one agent per movable part moves and turns it on a circuit board to shorten the wires."""

from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.factory import make
from jaxvrp.envs.pcb.problem.board import Board, load, make_board, pad, save, stack, trim
from jaxvrp.envs.pcb.problem.bookshelf import read_bookshelf
from jaxvrp.envs.pcb.problem.generator import Parameters, generate, make_parameters
from jaxvrp.envs.pcb.problem.netlist import Netlist, PcbFile, make_netlist
from jaxvrp.envs.pcb.problem.pcb_file import read_pcb, write_pcb
from jaxvrp.envs.pcb.rules import from_unscaled, to_unscaled

__all__ = [
    "Board",
    "Netlist",
    "Parameters",
    "Pcb",
    "PcbFile",
    "from_unscaled",
    "generate",
    "load",
    "make",
    "make_board",
    "make_netlist",
    "make_parameters",
    "pad",
    "read_bookshelf",
    "read_pcb",
    "save",
    "stack",
    "to_unscaled",
    "trim",
    "write_pcb",
]
