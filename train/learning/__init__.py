"""What all learners share: their interface, devices, and many arrays as one vector."""
