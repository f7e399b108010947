"""What the accelerator of a machine does, in nine minutes at most."""
