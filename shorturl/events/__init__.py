"""Events of short URLs: who is told of them, and how."""
