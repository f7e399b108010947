"""What a dial-a-ride policy is compared with: priority rules, a search, outside solvers."""
