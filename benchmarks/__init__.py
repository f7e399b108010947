"""How fast the simulator and the learners are, against what; every result comes with the machine that gave it."""
