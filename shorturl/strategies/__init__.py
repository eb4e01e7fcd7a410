"""Every way to write each operation: a folder for each operation, a file for each strategy."""
