"""Programs compiled for accelerators that are not at hand, and what their compilers say of them."""
