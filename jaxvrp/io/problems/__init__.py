"""Files of problems, plans and states that several environments read or write, and what is said of mistakes in them."""
