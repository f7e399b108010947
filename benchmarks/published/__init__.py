"""Published instances, which are not part of this project: where they lie, and their best known costs."""
