"""What a Citus cluster needs, all of it: skip this folder without one.

The service calls it where the counter of hits is made, and through shorturl/cluster.py.
"""
