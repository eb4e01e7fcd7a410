"""The tables that only exhibits write; an app that is installed with the lab alone."""
