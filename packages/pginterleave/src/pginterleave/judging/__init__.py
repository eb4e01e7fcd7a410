"""Judges the end of a schedule: by an invariant, or by the serial orders."""
