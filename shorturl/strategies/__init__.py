"""Every way to write each operation: a folder for each operation, a file for each strategy.

A docstring says in this order: what the strategy does, the SQL that Django sends for it, what goes
wrong or why nothing can, what it costs, and when to use it, unless that is never.
"""
