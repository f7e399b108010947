"""Players on frozen sets of problems: records that anybody can check."""
