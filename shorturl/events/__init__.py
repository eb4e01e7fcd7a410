"""Events of short URLs: their receivers, and the delivery."""
