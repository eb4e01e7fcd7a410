"""How fast it is, measured. Each file that can be run says in its docstring how."""
