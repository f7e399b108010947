"""What all pictures are made with: colours, figures, files, and small pictures of one state."""
