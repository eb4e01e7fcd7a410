"""A room votes which process goes next: an app of its own, which the lab works without."""
