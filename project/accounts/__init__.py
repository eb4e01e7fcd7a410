"""Accounts: how they are saved, log-ins, sessions, and links to choose a password."""

# The unique index of names: no two accounts differ in case alone.
NAME_INDEX = "auth_user_username_lower_uk"
