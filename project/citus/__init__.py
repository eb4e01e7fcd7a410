"""What a Citus cluster needs, all of it: skip this folder without one.

The service calls this folder where the counter of hits is made, in the roll-up, where a quota is
spent and where a random key is drawn.
"""
