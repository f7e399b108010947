"""What a dial-a-ride policy is compared with: priority rules, cheapest insertion, outside solvers."""
